#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <lockstep/device.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace backend {
class DeviceBackend;
}

/// What a device's memory pool holds.
struct MemoryStats {
  std::int64_t in_use_bytes = 0;     ///< Handed out and not yet returned.
  std::int64_t cached_bytes = 0;     ///< Kept by the pool for reuse.
  std::int64_t free_bytes = 0;       ///< What the device could still give.
  std::int64_t num_allocations = 0;  ///< Requests to the system so far; constant in steady state.
};

/// @throws NotFound  there is no such device.
MemoryStats memory_stats(const Device& device);
/// Returns cached memory to the system. Waits for the device. @throws ContextError  one of its streams, made
/// by the library, is being captured.
void trim_memory(const Device& device);

/// Page-locked host bytes, from which `device` copies asynchronously. Move only. Not stream-ordered: keep it
/// alive until the copies are done.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(std::size_t size_bytes, const Device& device);
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), device_(std::exchange(other.device_, nullptr)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  std::span<std::byte> bytes() const& noexcept { return bytes_; }
  void bytes() const&& = delete;  // would outlive them

 private:
  std::span<std::byte> bytes_;
  backend::DeviceBackend* device_ = nullptr;
};

}  // namespace lockstep

#pragma GCC visibility pop
