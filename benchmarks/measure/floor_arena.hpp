#pragma once

#include <cstdint>
#include <vector>

#include "measure/replica.hpp"
#include "processes/processes.hpp"
#include "workers/shared_memory/shared_segment.hpp"

namespace lockstep::bench {

/// Memory of the host that all processes share, with a send and a receive buffer for each rank of each
/// process: what plain processes would reduce in. Each process's pages are its own threads'.
class FloorArena {
 public:
  /// All processes make theirs together. @param size_bytes  of each buffer.
  /// @throws OutOfMemory; Unsupported: the processes cannot share memory.
  FloorArena(const Processes& processes, int num_ranks_per_process, std::int64_t size_bytes);

  /// Makes the ranks' buffers lie in the arena, behind `offset_bytes`. @param ranks  of all processes.
  void place(std::vector<RankBuffers>& ranks, std::int64_t offset_bytes) const;

 private:
  std::size_t ranks_per_process_, buffer_bytes_;
  detail::SharedSegment segment_;
};

}  // namespace lockstep::bench
