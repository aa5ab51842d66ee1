#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/process_group.hpp>
#include <lockstep/device.hpp>

#include "collectives/collective_checks.hpp"
#include "collectives/rendezvous.hpp"
#include "trace/call_group.hpp"
#include "workers/worker_meeting.hpp"

namespace lockstep::detail {

/// The arrivals of all ranks of a communicator over several workers: this worker's own, and, after
/// `exchange`, those of the others, made from what these have told. A tensor of another worker's has shape
/// and dtype, and no memory.
///
/// One thread uses it, that of the first local rank, in the check of a meeting of the local ranks.
class WorkerCalls {
 public:
  /// The references outlive this. @param devices  of all ranks. @param calls  of the local ranks.
  WorkerCalls(backend::ProcessRanks ranks, const std::vector<Device>& devices, WorkerMeeting& meeting,
              const CallGroup& calls);

  int first_rank() const noexcept { return first_rank_; }
  int num_local_ranks() const noexcept { return end_rank_ - first_rank_; }

  /// Begins a call: the other workers' arrivals are null. @return by rank.
  std::span<const Arrival* const> set_own(std::span<const Arrival* const> own);
  std::span<const Arrival* const> arrivals() const noexcept { return arrivals_; }

  /// Meets the other workers, for a collective. @param message  the local inputs of a short reduction, one
  /// after another, which come with the meeting; may be empty.
  /// @return whether all workers' calls are alike: then `message_of` has their messages, or, where these are
  /// empty, the others' arrivals are copies of an own one. Else the arrivals are as they were told.
  bool exchange_collective(std::span<const std::byte> message, std::chrono::milliseconds timeout);
  /// The same, where of an arrival the others need no more than number, text and tensors.
  void exchange_arrivals(std::chrono::milliseconds timeout);
  /// Meets the other workers again, where each has looked at all calls, and none refuses its own.
  void confirm(std::chrono::milliseconds timeout) { meet({}, timeout); }
  /// Tells the other workers that this worker's calls are wrong, and throws `error`.
  [[noreturn]] void refuse(const std::exception_ptr& error, std::chrono::milliseconds timeout) {
    meeting_.refuse(own().operation, error, timeout, [this] { return history(); });
  }

  /// @throws PeerLost  a worker is lost.
  void throw_if_lost(std::string_view operation) { meeting_.throw_if_lost(operation); }
  void await_report() noexcept { meeting_.await_report(); }
  void break_off(const std::string& cause) noexcept { meeting_.break_off(cause); }

  /// What the worker of a rank brought beside its calls: the rank's part of it.
  std::span<const std::byte> message_of(int rank) const;

 private:
  // A rank of another worker.
  struct Remote {
    std::vector<TensorView> inputs, outputs;
    std::vector<int> destinations;
    std::string structure;
    std::optional<RankBatch> batch;
    CollectiveCall call{};
    Arrival arrival{};
  };

  void meet(std::span<const std::byte> message, std::chrono::milliseconds timeout) {
    meeting_.meet(own().operation, message, timeout, [this] { return history(); });
  }
  std::string history() const;
  const Arrival& own() const { return *arrivals_[static_cast<std::size_t>(first_rank_)]; }
  bool is_own(int rank) const noexcept { return first_rank_ <= rank && rank < end_rank_; }
  Remote& remote(int rank) { return remotes_[static_cast<std::size_t>(rank)]; }
  void set_arrivals();
  /// The other ranks' calls, as copies of `call` without memory.
  void copy_calls(const CollectiveCall& call);
  void write_calls(ByteWriter& writer) const;
  void read_calls(ByteReader reader, int worker);

  const backend::ProcessRanks ranks_;
  const std::vector<Device>& devices_;
  WorkerMeeting& meeting_;
  const CallGroup& calls_;
  const int number_;  // of those of the meeting
  const int first_rank_;
  const int end_rank_;
  std::vector<const Arrival*> arrivals_;
  std::vector<Remote> remotes_;    // by rank; those of own ranks are not used
  std::vector<int> worker_of_;     // by rank
  std::size_t message_begin_ = 0;  // in each worker's message
  ByteWriter writer_;
};

}  // namespace lockstep::detail
