#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>
#include <lockstep/error.hpp>

namespace lockstep::test {

/// Channels between "processes" that are threads of this one.
class LocalChannels {
 public:
  explicit LocalChannels(int num_processes)
      : brought_(static_cast<std::size_t>(num_processes)), bytes_sent_(brought_.size()) {}

  std::unique_ptr<backend::Channel> open(int process) { return std::make_unique<Channel>(*this, process); }
  /// How many calls have ended on all.
  int num_calls() const { return num_calls_; }
  /// To other processes. @pre no call is under way.
  std::int64_t bytes_sent(int process) const { return bytes_sent_[static_cast<std::size_t>(process)]; }

 private:
  struct Brought {
    std::vector<std::span<const std::byte>> sends;
    std::vector<std::span<std::byte>> receives;
  };

  class Channel final : public backend::Channel {
   public:
    Channel(LocalChannels& channels, int process)
        : channels_(channels), process_(static_cast<std::size_t>(process)) {}

    void all_gather(std::span<const std::byte> own, std::span<std::byte> all, backend::Deadline) override {
      Brought brought;
      for (std::size_t p = 0; p < channels_.brought_.size(); ++p) {
        brought.sends.push_back(own);
        brought.receives.push_back(all.subspan(p * own.size(), own.size()));
      }
      channels_.exchange(process_, std::move(brought));
    }
    void broadcast(std::span<std::byte> buffer, int root, backend::Deadline) override {
      const auto source = static_cast<std::size_t>(root);
      Brought brought;
      brought.sends.resize(channels_.brought_.size());
      brought.receives.resize(channels_.brought_.size());
      for (std::size_t p = 0; p < brought.sends.size(); ++p) {
        if (process_ == source && p != source) brought.sends[p] = buffer;
      }
      if (process_ != source) brought.receives[source] = buffer;
      channels_.exchange(process_, std::move(brought));
    }
    void barrier(backend::Deadline) override { channels_.exchange(process_, {}); }
    void all_to_all(std::span<const std::span<const std::byte>> sends,
                    std::span<const std::span<std::byte>> receives, backend::Deadline) override {
      channels_.exchange(process_, {{sends.begin(), sends.end()}, {receives.begin(), receives.end()}});
    }
    void abort(std::string_view cause) noexcept override { channels_.abort(cause); }

   private:
    LocalChannels& channels_;
    const std::size_t process_;
  };

  void exchange(std::size_t process, Brought brought) {
    for (std::size_t p = 0; p < brought.sends.size(); ++p)
      if (p != process) bytes_sent_[process] += static_cast<std::int64_t>(brought.sends[p].size());
    brought_[process] = std::move(brought);
    meet();
    for (std::size_t p = 0; p < brought_.size() && !brought_[process].receives.empty(); ++p) {
      const std::span<const std::byte> sent = brought_[p].sends[process];
      const std::span<std::byte> received = brought_[process].receives[p];
      if (sent.size() != received.size()) {
        abort("sizes differ");
        throw std::logic_error("a process sends " + std::to_string(sent.size()) +
                               " bytes, and the other expects " + std::to_string(received.size()));
      }
      std::ranges::copy(sent, received.begin());
    }
    meet();
    if (process == 0) ++num_calls_;
  }

  void meet() {
    std::unique_lock lock(mutex_);
    const int meeting = num_meetings_;
    if (++num_here_ == static_cast<int>(brought_.size())) {
      num_here_ = 0;
      ++num_meetings_;
      all_are_here_.notify_all();
    }
    all_are_here_.wait(lock, [&] { return num_meetings_ != meeting || !cause_.empty(); });
    if (!cause_.empty()) throw CollectiveAborted(cause_);
  }

  void abort(std::string_view cause) noexcept {
    const std::lock_guard lock(mutex_);
    if (cause_.empty()) cause_ = cause;
    all_are_here_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable all_are_here_;
  std::vector<Brought> brought_;
  std::vector<std::int64_t> bytes_sent_;  // by process
  std::string cause_;
  int num_here_ = 0;
  int num_meetings_ = 0;
  int num_calls_ = 0;
};

}  // namespace lockstep::test
