#pragma once

#include <cstdint>

namespace lockstep::test {

enum class Memory : std::uint8_t {
  heap,   ///< operator new
  device  ///< of the host's devices, as far as they have none in their caches
};

/// While it lives, memory runs out on all threads: one request to the heap fails, or one request to a device
/// and all later ones. Link failing_memory.cpp. One at a time.
class FailingMemory {
 public:
  /// @param n  the first request to fail, counted from 1.
  FailingMemory(Memory memory, std::int64_t n);
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  /// Whether a request has failed.
  static bool has_failed();
};

}  // namespace lockstep::test
