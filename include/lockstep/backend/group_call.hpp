#pragma once

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/backend/handles.hpp>
#include <lockstep/communication.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// One tensor of one rank in a collective. The memory is contiguous; `send` may equal `receive` exactly.
struct Segment {
  const void* send = nullptr;  ///< Null if the rank only receives.
  void* receive = nullptr;     ///< Null if the rank only sends.
  std::int64_t count = 0;  ///< Number of elements; each collective says of which buffer. Not 0 on all ranks.
  DType dtype = DType::f32;
};

/// The size in bytes of `segment.count` elements.
inline std::int64_t bytes_of(const Segment& segment) {
  return segment.count * static_cast<std::int64_t>(size_of(segment.dtype));
}

/// The number of different dtypes.
inline int num_dtypes(std::span<const Segment> batch) {
  std::uint32_t seen = 0;
  for (const Segment& segment : batch) seen |= std::uint32_t{1} << static_cast<unsigned>(segment.dtype);
  return std::popcount(seen);
}

/// One rank's contribution to a collective: a batch of segments, whose number and dtypes are equal on every
/// rank, and the stream that orders its work.
struct RankCall {
  int rank = 0;
  StreamHandle stream{};  ///< Not set if the backend shares_memory(): no stream orders its work.
  std::span<const Segment> segments;
};

/// A copy of bytes from one rank's memory to another rank's, or to another place in its own.
struct Transfer {
  std::size_t segment = 0;  ///< Index of the segment in both ranks' calls.
  int source = 0;
  int destination = 0;
  std::int64_t send_begin_bytes = 0;     ///< Offset from the source's `send`.
  std::int64_t receive_begin_bytes = 0;  ///< Offset from the destination's `receive`.
  std::int64_t size_bytes = 0;           ///< Above 0.
};

/// What a caller may ask of the path of a reduction; equal on all ranks.
struct Route {
  CommunicationImplementation implementation = CommunicationImplementation::automatic;
  bool in_rank_order = false;
  std::int64_t peer_bytes = -1;  ///< CommunicationOptions::peer_bytes; -1: the default.

  bool operator==(const Route&) const = default;
};

/// A collective as one thread calls it: the contributions of all ranks of the group, and the ranks that the
/// thread drives. The memory that it refers to stays valid until every rank's call has returned.
struct GroupCall {
  std::string_view operation;             ///< "all_reduce(sum)", "gather": for messages.
  std::span<const RankCall> calls;        ///< Calls of all ranks, by rank; equal for every thread.
  std::span<const RankCall> own;          ///< Calls of the ranks that the calling thread drives.
  ReduceOp op = ReduceOp::sum;            ///< For all_reduce, reduce and reduce_scatter.
  int root = 0;                           ///< For reduce and broadcast.
  std::span<const Transfer> transfers{};  ///< For transfer; equal for every thread.
  Route route{};                          ///< For reductions.
  /// Once all ranks have made the call: for each step of it that waits for other processes, which moves some
  /// MiB; 0: none.
  std::chrono::milliseconds timeout{0};

  /// Whether the calling thread drives all ranks, so that no other thread makes the call.
  bool is_whole() const noexcept { return own.size() == calls.size(); }
};

}  // namespace lockstep::backend

#pragma GCC visibility pop
