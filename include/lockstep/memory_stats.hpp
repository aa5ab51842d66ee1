#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep {

/// Statistics of a device's memory pool.
struct MemoryStats {
  std::int64_t in_use_bytes = 0;  ///< Allocated and not yet returned.
  std::int64_t cached_bytes = 0;  ///< Kept by the pool for reuse.
  std::int64_t free_bytes = 0;    ///< Memory that the device could still allocate.
  /// Requests to the system so far; of a GPU's pool, how often memory_stats has found it grown. Constant in
  /// steady state.
  std::int64_t num_allocations = 0;
};

}  // namespace lockstep

#pragma GCC visibility pop
