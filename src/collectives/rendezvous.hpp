#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/error.hpp>
#include <lockstep/tensor_view.hpp>

#include "collectives/mailbox.hpp"

namespace lockstep::detail {

/// Thrown into a rank that waits for one that has failed. Not an Error, nor a std::exception: not for users
/// to handle.
struct Released {};

/// Thrown into a rank that waits for one that has left; a consequence, where another rank failed by itself.
class MissingRank : public ContextError {
 public:
  using ContextError::ContextError;
};

/// What a rank brings to a meeting. `meet` keeps a copy; what it points to is the rank's, which keeps it
/// alive while others may read it: during `meet` (for the check), and, where other ranks use `arrival`, until
/// a later meeting tells that they have finished.
struct Arrival {
  std::string_view operation;  ///< "all_reduce(sum)", "merge_call", …: must be the same on all ranks.
  std::span<const TensorView> tensors{};  ///< For checks and messages.
  const void* payload = nullptr;          ///< For the operation's own use.
  Fingerprint fingerprint{};
  bool brings_input = false;  ///< A copy of what the fingerprint reads, which is short.
};

/// Where the threads that drive the ranks of a group meet, once for each operation: each brings an Arrival,
/// all go on together, or all fail together. Spins briefly, then parks.
///
/// Each rank has a place of its own to say that it has arrived, which the others watch: one cache line goes
/// from each to each. A second one, the verdict, comes from rank 0's thread, which checks what all brought;
/// unless all brought fingerprints that agree, which every thread sees for itself.
///
/// It cannot deadlock: a rank leaves the meeting only when all ranks have arrived, one of them left or
/// failed, the time limit is over, or the group was aborted; each of these wakes every waiter.
class Rendezvous {
  struct Impl;

 public:
  /// @param labels  one per rank, for messages: "replica 2 (CPU:2)". @param member  outlives this: what
  /// messages call one of them.
  explicit Rendezvous(std::vector<std::string> labels, std::string_view member = "replica");
  ~Rendezvous();

  int num_ranks() const noexcept;
  const std::string& label(int rank) const;

  /// While it lives the calling thread drives `ranks`, which outlive it, and no other does: their meetings,
  /// and what belongs to them, are this thread's.
  class Turn {
   public:
    /// @throws ContextError  another thread drives one of them.
    Turn(Rendezvous& rendezvous, std::span<const int> ranks, std::string_view operation);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    friend class Rendezvous;
    Impl& impl_;
    std::span<const int> ranks_;
  };

  /// Blocks until every rank has arrived. `arrivals[i]` is rank `ranks[i]`'s. Rank 0's thread checks that
  /// all operations are equal and runs `check` (may be empty) on all arrivals, indexed by rank; what that
  /// throws, every rank's meet throws.
  /// @return whether the ranks' fingerprints agree: then nothing was checked, and `mailbox` has them. The
  /// same on every rank.
  /// @throws CollectiveMismatch  two ranks brought different operations: names both ranks and operations.
  /// @throws ContextError  a rank has left: names it, the operation and its call index; or two threads drive
  /// one rank.
  /// @throws CollectiveTimeout  not all arrived within `timeout` (0: no limit): operation, call index,
  /// present and missing ranks.
  ///         The group has then failed: late ranks get it too, and CollectiveAborted is what later calls get.
  /// @throws Released  another rank failed (`fail`).
  /// @throws CollectiveAborted  the group was aborted, or has failed before; repeats the cause.
  using Check = FunctionRef<void(std::span<const Arrival* const>)>;
  bool meet(std::span<const int> ranks, std::span<const Arrival> arrivals, const Check& check,
            std::chrono::milliseconds timeout) {
    const Turn turn(*this, ranks, arrivals.front().operation);
    return meet(turn, arrivals, check, timeout);
  }
  bool meet(const Turn& turn, std::span<const Arrival> arrivals, const Check& check,
            std::chrono::milliseconds timeout);
  bool meet(int rank, const Arrival& arrival, const Check& check, std::chrono::milliseconds timeout) {
    return meet(std::span(&rank, 1), std::span(&arrival, 1), check, timeout);
  }
  /// What `rank` brought to the last meeting that `own`, a rank of the calling thread's, attended. Valid
  /// until own meets again, also if others are there already; for what it points to see Arrival.
  const Arrival& arrival(int rank, int own) const;
  /// Its fingerprint, and its message, aligned for elements of any dtype; valid as long.
  const Mailbox& mailbox(int rank, int own) const;

  /// `rank` will not come any more: its function has returned. Whoever waits, now or later, gets
  /// ContextError.
  void leave(int rank);
  /// `rank`'s function has thrown. Whoever waits, now or later, gets Released.
  void fail(int rank);
  /// Whoever waits, now or later, gets CollectiveAborted; `reset` does not undo it.
  void abort(const std::string& cause) noexcept;
  bool is_aborted() const noexcept;
  /// What a meeting now would throw on the thread of `turn`. @pre is_aborted()
  [[noreturn]] void throw_aborted(const Turn& turn, std::string_view operation);
  /// Whether a rank has failed: who waited got Released.
  bool has_released() const noexcept;
  /// Everybody is back, nobody has failed, and calls count from 0. @pre nobody is meeting.
  void reset();

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::detail
