#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>

#include <lockstep/backend/handles.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// One tensor's part in a collective, on one rank. Contiguous memory; `send` may be exactly `receive`.
struct Segment {
  const void* send = nullptr;  ///< Null where the rank only receives.
  void* receive = nullptr;     ///< Null where the rank only sends.
  std::int64_t count = 0;  ///< Elements; what they count is said at each collective. Never 0 on all ranks.
  DType dtype = DType::f32;
};

/// What one rank brings to a call: a batch of segments, as many and alike on every rank, and the stream they
/// are ordered on.
struct RankCall {
  int rank = 0;
  StreamHandle stream{};
  std::span<const Segment> segments;
};

/// Bytes that go from one rank's memory to another's, or to another place in its own.
struct Transfer {
  std::size_t segment = 0;  ///< Of both ranks' calls.
  int source = 0;
  int destination = 0;
  std::int64_t send_begin_bytes = 0;     ///< Behind the source's `send`.
  std::int64_t receive_begin_bytes = 0;  ///< Behind the destination's `receive`.
  std::int64_t size_bytes = 0;           ///< Above 0.
};

/// The collectives of a group of devices; one object serves all ranks of this process.
///
/// For a backend author: a call names the ranks that the calling thread drives, one or several or all; a
/// collective starts when every rank has been named by some thread. Calls for several ranks are issued as one
/// group. A thread may block until the others have called, never until a device is done (asynchronous
/// backends). The core has checked that all ranks agree on collective, dtypes, counts and root, and that
/// buffers do not overlap partly; it calls one collective at a time, each rank in the same order. Every rank
/// receives the same bits. Contributions are combined in rank order where the backend does the arithmetic,
/// f16, bf16 and f8 in float, integers wrapping in their type; mean is the sum divided by the number of ranks
/// in float or double, never on integers, and does not overflow where its true value fits; min and max
/// propagate NaN.
///
/// InvalidArgument, Unsupported and ContextError say that nothing was enqueued: the group stays usable where
/// one thread named all ranks. After any other error, or where ranks have several threads, the core aborts
/// it.
class CommunicatorBackend {
 public:
  virtual ~CommunicatorBackend() = default;

  virtual int num_ranks() const = 0;
  /// Whether reductions always combine contributions in rank order. Where not, and an order is asked for, the
  /// core gathers them and combines them with the device's kernels.
  virtual bool combines_in_rank_order() const { return true; }

  /// Whether the calling thread may read and write any rank's memory by itself, at once. The core then does
  /// short reductions without a collective, by reduce_here.
  virtual bool shares_memory() const { return false; }
  /// Combines `count` elements of `sources`, one for each rank, in rank order, and writes them to all
  /// `destinations`; one of these may be exactly a source. Any thread. @pre shares_memory().
  virtual void reduce_here(ReduceOp /*op*/, DType /*dtype*/, std::int64_t /*count*/,
                           std::span<const void* const> /*sources*/,
                           std::span<void* const> /*destinations*/) {}

  /// count: elements of each rank's buffer.
  virtual void all_reduce(std::span<const RankCall> calls, ReduceOp op) = 0;
  /// Only root's `receive` is written; count as in all_reduce.
  virtual void reduce(std::span<const RankCall> calls, ReduceOp op, int root) = 0;
  /// Root's `send` goes to every rank's `receive`, root's own included where it is not null.
  virtual void broadcast(std::span<const RankCall> calls, int root) = 0;
  /// count: elements that this rank sends; the counts of ranks may differ. Every rank receives the
  /// concatenation in rank order.
  virtual void all_gather(std::span<const RankCall> calls) = 0;
  /// count: elements that each rank receives; it sends num_ranks times as many.
  virtual void reduce_scatter(std::span<const RankCall> calls, ReduceOp op) = 0;
  /// Makes all `transfers`, which are the same on every rank, ordered by segment, and keep clear of each
  /// other; one may be from a place to exactly that place. Segments' counts say nothing here, and a rank with
  /// no part in them may have none. They may change once all calls have returned.
  /// @param operation  for messages: gather, scatter, all_to_all or send_recv.
  virtual void transfer(std::string_view operation, std::span<const RankCall> calls,
                        std::span<const Transfer> transfers) = 0;

  /// Releases every waiting call, which throws CollectiveAborted, as later calls do. Any thread.
  virtual void abort() noexcept = 0;
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
