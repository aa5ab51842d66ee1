#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>

namespace lockstep::engines {

/// A channel whose calls are messages between pairs of processes: engines' own collectives cannot be taken
/// back when a process does not come.
class PairwiseChannel : public backend::Channel {
 public:
  void all_gather(std::span<const std::byte> own, std::span<std::byte> all,
                  backend::Deadline deadline) final {
    gather("all_gather", own, all, deadline);
  }
  void barrier(backend::Deadline deadline) final {
    const std::byte here{};
    std::vector<std::byte> there(num_processes_);
    gather("barrier", {&here, 1}, there, deadline);
  }
  void all_to_all(std::span<const std::span<const std::byte>> sends,
                  std::span<const std::span<std::byte>> receives, backend::Deadline deadline) final {
    run("all_to_all", sends, receives, deadline);
  }

 protected:
  /// @pre before any call.
  void set_place(int process, int num_processes) noexcept {
    process_ = static_cast<std::size_t>(process);
    num_processes_ = static_cast<std::size_t>(num_processes);
  }
  int process() const noexcept { return static_cast<int>(process_); }
  /// As all_to_all, but for what the process sends to itself. @param operation  for messages.
  virtual void exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                        std::span<const std::span<std::byte>> receives, backend::Deadline deadline) = 0;

  /// Calls f(process) for all others. Everybody begins with the next process: not all with the same.
  template <class F>
  void for_each_destination(const F& f) const {
    for (std::size_t i = 1; i < num_processes_; ++i) f((process_ + i) % num_processes_);
  }
  template <class F>
  void for_each_source(const F& f) const {
    for (std::size_t i = 1; i < num_processes_; ++i) f((process_ + num_processes_ - i) % num_processes_);
  }

 private:
  void gather(std::string_view operation, std::span<const std::byte> own, std::span<std::byte> all,
              backend::Deadline deadline) {
    const std::vector<std::span<const std::byte>> sends(num_processes_, own);
    std::vector<std::span<std::byte>> receives;
    for (std::size_t p = 0; p < num_processes_; ++p)
      receives.push_back(all.subspan(p * own.size(), own.size()));
    run(operation, sends, receives, deadline);
  }
  void run(std::string_view operation, std::span<const std::span<const std::byte>> sends,
           std::span<const std::span<std::byte>> receives, backend::Deadline deadline) {
    if (!sends[process_].empty() && sends[process_].data() != receives[process_].data())
      std::memcpy(receives[process_].data(), sends[process_].data(), sends[process_].size());
    exchange(operation, sends, receives, deadline);
  }

  std::size_t process_ = 0, num_processes_ = 1;
};

}  // namespace lockstep::engines
