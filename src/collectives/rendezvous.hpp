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

class CallGroup;

/// Thrown into a rank that waits for one that has failed. It is no std::exception, so that users do not
/// handle it.
struct Released {};

/// Thrown into a rank that waits for one that has left. If another rank has failed, it is only a consequence.
class MissingRank : public ContextError {
 public:
  using ContextError::ContextError;
};

/// A rank's contribution to a meeting. `meet` keeps a copy; the rank keeps the data that it points to alive
/// while others may read them: during `meet` (for the check), and, if other ranks use `arrival`, until a
/// later meeting shows that they have finished.
struct Arrival {
  std::string_view operation;             ///< Static text, "all_reduce(sum)": must be the same on all ranks.
  std::span<const TensorView> tensors{};  ///< For checks and messages.
  const void* payload = nullptr;          ///< For the operation's own use, in this process.
  std::int64_t number = 0;                ///< Likewise; other workers see it, too.
  std::string_view text{};
  std::string_view label{};  ///< The caller's name of the call, for reports.
  bool enqueues = false;     ///< Whether the call, when it returns, has only enqueued its work.
  Fingerprint fingerprint{};
  bool copies_input = false;  ///< Whether the mailbox takes a copy of the input, which is short.
};

/// A barrier with a check: the threads that drive the ranks of a group meet in it, once for each operation.
/// Each brings an Arrival; all go on together, or all fail together. Spins briefly, then parks.
///
/// Each rank marks its arrival in a slot of its own, which the others watch: one cache line goes from each
/// rank to each. Where all fingerprints agree, every thread sees for itself that the arrivals do. Else rank
/// 0's thread checks them, and a second line, the number of checked meetings, comes from it.
///
/// It cannot deadlock: a rank leaves the meeting only when all ranks have arrived, one of them has left or
/// failed, the time limit is over, or the group was aborted; each of these wakes every waiter.
class Rendezvous {
  struct Impl;

 public:
  /// @param labels  one per rank, for messages: "replica 2 (CPU:2)". @param member  outlives this: the noun
  /// for a rank in messages.
  explicit Rendezvous(std::vector<std::string> labels, std::string_view member = "replica");
  ~Rendezvous();

  int num_ranks() const noexcept;
  /// The ranks' newest calls.
  CallGroup& calls() const noexcept;
  /// The error of a call under way; if it is a mismatch, with the first call since `reset` that differs.
  std::exception_ptr described(std::exception_ptr error) const noexcept;
  /// Equal for the ranks of a meeting, and unique in the process: of the next one of `rank`, of the calling
  /// thread's.
  std::uint64_t next_call_id(int rank) const noexcept;
  /// The number of the last meeting of `rank`, of the calling thread's, in CallGroup.
  std::uint64_t last_meeting(int rank) const noexcept;
  const std::string& label(int rank) const;

  /// While it lives only the calling thread drives `ranks`, which outlive it: their meetings are this
  /// thread's.
  class RankLock {
   public:
    /// @throws ContextError  another thread drives one of them.
    RankLock(Rendezvous& rendezvous, std::span<const int> ranks, std::string_view operation);
    ~RankLock();
    RankLock(const RankLock&) = delete;
    RankLock& operator=(const RankLock&) = delete;
    /// The ranks' call has failed after it met the others: for their records.
    void set_failed() const noexcept;

   private:
    friend class Rendezvous;
    Impl& impl_;
    std::span<const int> ranks_;
  };

  /// Blocks until every rank has arrived. `arrivals[i]` is rank `ranks[i]`'s. Rank 0's thread checks that
  /// all operations are equal and runs `check` (may be empty) on all arrivals, indexed by rank; every rank's
  /// meet throws its error.
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
    const RankLock rank_lock(*this, ranks, arrivals.front().operation);
    return meet(rank_lock, arrivals, check, timeout);
  }
  bool meet(const RankLock& rank_lock, std::span<const Arrival> arrivals, const Check& check,
            std::chrono::milliseconds timeout);
  bool meet(int rank, const Arrival& arrival, const Check& check, std::chrono::milliseconds timeout) {
    return meet(std::span(&rank, 1), std::span(&arrival, 1), check, timeout);
  }
  /// The arrival of `rank` at the last meeting of `own`, a rank of the calling thread's. Valid until own
  /// meets again, also if others have arrived already; Arrival says how long its data are.
  const Arrival& arrival(int rank, int own) const;
  /// Its fingerprint, and its message, aligned for elements of any dtype; valid as long.
  const Mailbox& mailbox(int rank, int own) const;

  /// `rank` will not arrive any more: its function has returned. Waiting ranks, now or later, get
  /// ContextError.
  void leave(int rank);
  /// `rank`'s function has thrown. Waiting ranks, now or later, get Released.
  void fail(int rank);
  /// Waiting ranks, now or later, get CollectiveAborted; `reset` does not undo it.
  void abort(const std::string& cause) noexcept;
  bool is_aborted() const noexcept;
  /// Throws the error of a meeting now, on the thread of `rank_lock`. @pre is_aborted()
  [[noreturn]] void throw_aborted(const RankLock& rank_lock, std::string_view operation);
  /// Whether a rank has failed: the waiting ranks got Released.
  bool has_released() const noexcept;
  /// All ranks are back, none has failed, and calls count from 0. @pre no rank is in a meeting.
  /// @param least  of the next meeting's number.
  void reset(std::uint64_t least = 0);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::detail
