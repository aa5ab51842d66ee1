#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep {

/// What a device's memory pool holds.
struct MemoryStats {
  std::int64_t in_use_bytes = 0;     ///< Handed out and not yet returned.
  std::int64_t cached_bytes = 0;     ///< Kept by the pool for reuse.
  std::int64_t free_bytes = 0;       ///< What the device could still give.
  std::int64_t num_allocations = 0;  ///< Requests to the system so far; constant in steady state.
};

}  // namespace lockstep

#pragma GCC visibility pop
