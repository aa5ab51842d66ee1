#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/device.hpp>
#include <lockstep/memory_stats.hpp>

namespace lockstep::host {

/// A cache of host memory, shared by all CPU:k of a NUMA node. There are four block sizes per power of two,
/// so that at most a quarter is wasted. Freed blocks are kept: a step that repeats neither calls malloc nor
/// touches a new page. Thread-safe.
class HostMemory {
 public:
  static constexpr std::size_t kAlignment = 256;

  /// @param node  the NUMA node that provides the pages; -1: any.
  explicit HostMemory(int node = -1) : node_(node) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() { trim(); }

  /// @param device  for the message.
  /// @throws OutOfMemory
  void* allocate(std::size_t size_bytes, const Device& device);
  /// @param size_bytes  the size given to allocate.
  void deallocate(void* data, std::size_t size_bytes) noexcept;
  MemoryStats stats() const;
  void trim() noexcept;

  /// The size of the block that holds `size_bytes`; at most kMaxBytes.
  static std::size_t block_bytes(std::size_t size_bytes);

 private:
  // Larger requests are always refused, so that sizes cannot overflow.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 56;
  static constexpr std::size_t kNumClasses = 4 * (56 - 9);

  static std::size_t class_of(std::size_t size_bytes);
  static std::size_t bytes_of_class(std::size_t size_class);
  void* take_cached(std::size_t size_class);
  void* take_from_system(std::size_t block_bytes);

  const int node_;
  mutable detail::LeafMutex mutex_;  // guards the members below
  std::array<std::vector<void*>, kNumClasses> cache_;
  std::int64_t in_use_bytes_ = 0;
  std::int64_t cached_bytes_ = 0;
  std::int64_t num_allocations_ = 0;
};

/// Memory of the machine, in bytes.
std::int64_t total_memory_bytes();
/// The memory that the system could still provide without swapping, in bytes.
std::int64_t available_memory_bytes();

}  // namespace lockstep::host
