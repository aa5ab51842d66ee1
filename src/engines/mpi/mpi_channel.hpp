#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>

#include "engines/first_cause.hpp"
#include "engines/mpi/mpi_process.hpp"

namespace lockstep::engines {

/// A channel over an MPI communicator of its own, by nonblocking calls.
class MpiChannel final : public backend::Channel {
 public:
  /// Opens it, together with all processes of `parent`.
  explicit MpiChannel(MPI_Comm parent);
  ~MpiChannel() override;
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  void all_gather(std::span<const std::byte> own, std::span<std::byte> all,
                  backend::Deadline deadline) override;
  void broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) override;
  void barrier(backend::Deadline deadline) override;
  void all_to_all(std::span<const std::span<const std::byte>> sends,
                  std::span<const std::span<std::byte>> receives, backend::Deadline deadline) override;
  void abort(std::string_view cause) noexcept override { cause_.set(cause); }

  MPI_Comm communicator() const noexcept { return communicator_; }

 private:
  struct Pending {
    MPI_Request request;
    int peer;  // -1: all
  };

  /// Makes a call of the channel: begin_all() begins its requests.
  template <class Work>
  void call(std::string_view operation, backend::Deadline deadline, const Work& begin_all);
  /// Begins a request by f(MPI_Request*).
  template <class F>
  void begin(std::string_view operation, int peer, const F& f);
  /// Waits for all that were begun.
  void finish(std::string_view operation, backend::Deadline deadline);
  void exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                std::span<const std::span<std::byte>> receives, backend::Deadline deadline);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int process_ = 0;
  int num_processes_ = 1;
  std::vector<Pending> pending_;
  FirstCause cause_;
};

}  // namespace lockstep::engines
