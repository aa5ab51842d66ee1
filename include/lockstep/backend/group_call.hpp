#pragma once

#include <cstddef>
#include <cstdint>
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

/// Bytes of what `segment.count` counts.
inline std::int64_t bytes_of(const Segment& segment) {
  return segment.count * static_cast<std::int64_t>(size_of(segment.dtype));
}

/// What one rank brings to a collective: a batch of segments, as many and alike on every rank, and the stream
/// they are ordered on.
struct RankCall {
  int rank = 0;
  StreamHandle stream{};  ///< Not set where the backend shares_memory(): no stream orders its work.
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

/// A collective as one thread calls it: what all ranks of the group bring to it, and which of them the thread
/// drives. What it refers to stays until every rank's call has returned.
struct GroupCall {
  std::string_view operation;       ///< "all_reduce(sum)", "gather": for messages.
  std::span<const RankCall> calls;  ///< Of all ranks, by rank; alike for every thread.
  std::span<const RankCall> own;    ///< Those of the ranks that the calling thread drives; all, or some.
  ReduceOp op = ReduceOp::sum;      ///< Of all_reduce, reduce and reduce_scatter.
  int root = 0;                     ///< Of reduce and broadcast.
  std::span<const Transfer> transfers{};  ///< Of transfer; alike for every thread.

  /// Whether the calling thread drives all ranks, so that no other makes the call.
  bool is_whole() const noexcept { return own.size() == calls.size(); }
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
