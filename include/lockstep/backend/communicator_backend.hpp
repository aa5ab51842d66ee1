#pragma once

#include <cstdint>
#include <span>

#include <lockstep/backend/group_call.hpp>
#include <lockstep/communication.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// The collectives of a group of devices; one object serves all ranks of this process.
///
/// For a backend author: when a collective is called, the ranks' threads have met. Each thread makes the call
/// for the ranks that it drives and passes the buffers of all ranks (GroupCall), so a call need not wait for
/// other threads to learn their buffers. The core has checked that all ranks agree on collective, dtypes,
/// counts and root, and that buffers do not overlap partly. It calls one collective at a time, in the same
/// order on each rank. Calls for several ranks are issued as one group.
///
/// A call returns when the work of its own ranks is enqueued on their streams or, in a backend that works on
/// the calling threads, done; any thread may have done it. The rank's caller then continues and reuses its
/// memory in the order of its stream, so another thread's call may use that memory only in work that the
/// stream waits for. A call may wait for other threads' calls; in an asynchronous backend it never waits for
/// a device.
///
/// Every rank receives the same bits, except for a NaN's sign and payload. A backend that does the arithmetic
/// itself combines contributions in rank order: f16, bf16 and f8 in float, integers wrapping in their type.
/// The mean is the sum divided by the number of ranks, in float or double and never in integers, and does not
/// overflow if its true value fits. Min and max propagate NaN.
///
/// InvalidArgument, Unsupported and ContextError say that nothing was enqueued. If one call was made for all
/// ranks, the group then stays usable and the callers of all ranks get the error. After any other error, or
/// an error in one of several calls, the core aborts the group and makes no further calls.
class CommunicatorBackend {
 public:
  virtual ~CommunicatorBackend() = default;

  virtual int num_ranks() const = 0;
  /// How all_reduce carries out a call: the rule by which it goes itself. All members are set but `op`,
  /// `dtype`, `size_bytes`, `num_tensors` and `num_ranks`, by the core. Any thread may call, at any time.
  /// @param op, batch  as in a GroupCall, without the memory, which is taken to be aligned. At least one
  /// tensor; counts are above 0. @throws Unsupported  the route asks for what there is not.
  virtual CommunicationPlan plan(ReduceOp op, std::span<const Segment> batch, const Route& route) const = 0;
  /// Whether reductions always combine contributions in rank order. If not, and the caller asks for that
  /// order, the core gathers the contributions and combines them with the device's kernels, except for an
  /// all_reduce whose plan is in rank order.
  virtual bool combines_in_rank_order() const { return true; }
  /// Whether one call, by any thread, can enqueue the work of all ranks. The core then makes a single call
  /// for all ranks, while the ranks' threads wait at their meeting.
  virtual bool enqueues_for_all() const { return false; }

  /// Whether the calling thread may read and write the memory of all ranks of this process at once by itself.
  /// The core then does short reductions with `reduce_here` instead of a collective.
  virtual bool shares_memory() const { return false; }
  /// Combines `count` elements of `sources`, one for each rank, in rank order, and writes the result to all
  /// `destinations`; a destination may be exactly a source. Any thread may call. @pre shares_memory().
  virtual void reduce_here(ReduceOp /*op*/, DType /*dtype*/, std::int64_t /*count*/,
                           std::span<const void* const> /*sources*/,
                           std::span<void* const> /*destinations*/) {}

  /// count: elements of each rank's buffer.
  virtual void all_reduce(const GroupCall& group) = 0;
  /// Writes only root's `receive`; count as in all_reduce.
  virtual void reduce(const GroupCall& group) = 0;
  /// Copies root's `send` to every rank's `receive`, including root's own if it is not null.
  virtual void broadcast(const GroupCall& group) = 0;
  /// count: elements that the rank sends; ranks may have different counts. Every rank receives the
  /// concatenation in rank order.
  virtual void all_gather(const GroupCall& group) = 0;
  /// count: elements that each rank receives; each rank sends num_ranks times as many.
  virtual void reduce_scatter(const GroupCall& group) = 0;
  /// Makes all `transfers`, which are ordered by segment and do not overlap; a transfer may copy a place to
  /// exactly itself. The counts of segments have no meaning here, and a rank that takes part in no transfer
  /// may have no segments. The core builds gather, scatter, all_to_all and send_recv from this call.
  virtual void transfer(const GroupCall& group) = 0;

  /// Calls `launch`, which launches graphs on the devices of all ranks of this process that may have
  /// collectives of the group. A backend whose devices wait for each other lets no other thread enqueue a
  /// collective meanwhile, so that all devices get them in one order.
  virtual void launch_graphs(detail::FunctionRef<void()> launch) { launch(); }

  /// Releases calls that wait for other threads' calls: they throw CollectiveAborted, and so do later calls.
  /// Any thread may call. A backend need do nothing if its calls wait only for work that is sure to finish.
  virtual void abort() noexcept {}
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
