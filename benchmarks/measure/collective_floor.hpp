#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/collective.hpp"
#include "measure/calls.hpp"
#include "measure/floor.hpp"
#include "measure/replica.hpp"

namespace lockstep::bench {

/// The host's loops. The faster one is the floor.
inline constexpr std::array kFloorLoops{FloorLoop::interleaved, FloorLoop::blocked};

/// The least traffic of a collective, which --floor measures beside it. Data that is in place already counts
/// as no traffic.
class CollectiveFloor {
 public:
  CollectiveFloor() = default;
  /// @param ranks  all ranks of all processes, by rank; their buffers must outlive this.
  CollectiveFloor(const Collective& collective, std::span<const Group> groups,
                  std::span<const RankBuffers> ranks, const Layout& layout);

  /// On the host: does one thread's slice of all ranks' reads and writes for an operation.
  void pass(FloorLoop loop, std::int64_t operation, int thread, int num_threads) const;
  /// On a GPU: enqueues a copy from the rank's one buffer to its other one, on its stream, which moves as
  /// many bytes as the rank reads and writes for an operation.
  void copy(const Replica& replica, std::int64_t operation) const;
  /// The bytes that this copies: half of the bytes that the rank reads and writes.
  std::int64_t copied_bytes(int rank) const { return traffic_bytes_[static_cast<std::size_t>(rank)] / 2; }
  /// The bytes that all ranks read and write for an operation.
  std::int64_t traffic_bytes() const;

 private:
  struct Piece {  // of the result
    std::vector<std::byte*> inputs, outputs;
    std::int64_t size_bytes = 0;
  };

  Layout layout_{};
  std::vector<Piece> pieces_;
  std::vector<std::int64_t> traffic_bytes_;  // by rank
};

/// One thread's share [begin, end) of `size` bytes or elements; the bounds are multiples of `granularity`.
struct Slice {
  std::int64_t begin, end;
};
Slice slice_of(std::int64_t size, int thread, int num_threads, std::int64_t granularity);

}  // namespace lockstep::bench
