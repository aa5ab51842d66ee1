#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>

#include "engines/first_cause.hpp"
#include "engines/mpi/mpi_process.hpp"
#include "engines/pairwise_channel.hpp"

namespace lockstep::engines {

/// A channel over an MPI communicator of its own, by nonblocking calls.
///
/// After a call that was aborted or late MPI is usable as before where all that the call had begun can be
/// taken back: messages to this process that have not begun to arrive, and ones from it that MPI has taken.
/// What has begun to move cannot, nor can a broadcast. The channel's communicator stays, for what still
/// comes.
class MpiChannel final : public PairwiseChannel {
 public:
  /// Opens it, together with all processes of `parent`.
  MpiChannel(MPI_Comm parent, backend::Deadline deadline);
  ~MpiChannel() override;
  MpiChannel(const MpiChannel&) = delete;
  MpiChannel& operator=(const MpiChannel&) = delete;

  void broadcast(std::span<std::byte> buffer, int root, backend::Deadline deadline) override;
  void abort(std::string_view cause) noexcept override { cause_.set(cause); }

  MPI_Comm communicator() const noexcept { return communicator_; }

 private:
  enum class Kind : char { receive, other };
  struct Pending {
    MPI_Request request;
    int peer;  // that is waited for; -1: any
    Kind kind;
  };

  void exchange(std::string_view operation, std::span<const std::span<const std::byte>> sends,
                std::span<const std::span<std::byte>> receives, backend::Deadline deadline) override;
  /// Makes a call of the channel: begin_all() begins its requests.
  template <class Work>
  void call(std::string_view operation, backend::Deadline deadline, const Work& begin_all);
  /// Begins a request by f(MPI_Request*).
  template <class F>
  void begin(std::string_view operation, int peer, Kind kind, const F& f);
  /// Waits for all that were begun.
  void finish(std::string_view operation, backend::Deadline deadline);
  /// Ends what was begun, and does not wait for other processes. @return false: it cannot.
  bool take_back(std::string_view operation);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::vector<Pending> pending_;
  bool has_failed_ = false;  // in a call
  FirstCause cause_;
};

}  // namespace lockstep::engines
