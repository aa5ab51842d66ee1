#pragma once

#include <cstdint>
#include <span>

#include <lockstep/backend/group_call.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// The collectives of a group of devices; one object serves all ranks of this process.
///
/// For a backend author: the ranks' threads have met when a collective is called, and each makes the call for
/// the ranks that it drives, with what all ranks bring (GroupCall). So a call need not wait for others to
/// know their buffers. The core has checked that all ranks agree on collective, dtypes, counts and root, and
/// that buffers do not overlap partly; it calls one collective at a time, each rank in the same order. Calls
/// for several ranks are issued as one group.
///
/// A call returns when the part of the thread's own ranks is enqueued on their streams, or done where the
/// backend works on the calling threads, whichever thread it was that did it. The rank's caller then goes on,
/// and reuses its memory in the order of its stream: no other thread's call may use that memory any more but
/// by work that the stream waits for. A call may wait for other threads' calls, never for a device
/// (asynchronous backends).
///
/// Every rank receives the same bits, but for a NaN's sign and payload. Contributions are combined in rank
/// order where the backend does the arithmetic, f16, bf16 and f8 in float, integers wrapping in their type;
/// mean is the sum divided by the number of ranks in float or double, never on integers, and does not
/// overflow where its true value fits; min and max propagate NaN.
///
/// InvalidArgument, Unsupported and ContextError say that nothing was enqueued: the group stays usable where
/// one call was for all ranks, and all ranks' callers get the error. After any other error, or one in one of
/// several calls, the core aborts the group, and makes no further calls.
class CommunicatorBackend {
 public:
  virtual ~CommunicatorBackend() = default;

  virtual int num_ranks() const = 0;
  /// Whether reductions always combine contributions in rank order. Where not, and an order is asked for, the
  /// core gathers them and combines them with the device's kernels.
  virtual bool combines_in_rank_order() const { return true; }
  /// Whether one call, by any thread, can enqueue the parts of all ranks. The core then makes only that one,
  /// for all ranks, while the ranks' threads wait where they have met.
  virtual bool enqueues_for_all() const { return false; }

  /// Whether the calling thread may read and write any rank's memory by itself, at once. The core then does
  /// short reductions without a collective, by reduce_here.
  virtual bool shares_memory() const { return false; }
  /// Combines `count` elements of `sources`, one for each rank, in rank order, and writes them to all
  /// `destinations`; one of these may be exactly a source. Any thread. @pre shares_memory().
  virtual void reduce_here(ReduceOp /*op*/, DType /*dtype*/, std::int64_t /*count*/,
                           std::span<const void* const> /*sources*/,
                           std::span<void* const> /*destinations*/) {}

  /// count: elements of each rank's buffer.
  virtual void all_reduce(const GroupCall& group) = 0;
  /// Only root's `receive` is written; count as in all_reduce.
  virtual void reduce(const GroupCall& group) = 0;
  /// Root's `send` goes to every rank's `receive`, root's own included where it is not null.
  virtual void broadcast(const GroupCall& group) = 0;
  /// count: elements that the rank sends; the counts of ranks may differ. Every rank receives the
  /// concatenation in rank order.
  virtual void all_gather(const GroupCall& group) = 0;
  /// count: elements that each rank receives; it sends num_ranks times as many.
  virtual void reduce_scatter(const GroupCall& group) = 0;
  /// Makes all `transfers`, which are ordered by segment, and keep clear of each other; one may be from a
  /// place to exactly that place. Segments' counts say nothing here, and a rank with no part in them may have
  /// none. It is what gather, scatter, all_to_all and send_recv are made of.
  virtual void transfer(const GroupCall& group) = 0;

  /// Releases calls that wait for other threads', which throw CollectiveAborted, as later ones do. Any
  /// thread. Nothing to do where none waits but for work that is sure to be done.
  virtual void abort() noexcept {}
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
