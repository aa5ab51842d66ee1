#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <lockstep/device.hpp>
#include <lockstep/memory_stats.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace backend {
class DeviceBackend;
}

/// @throws NotFound  there is no such device.
[[nodiscard]] MemoryStats memory_stats(const Device& device);
/// Returns cached memory to the system. Waits for the streams that the library made on the device and on all
/// virtual devices of its GPU; memory whose release waits on other streams stays cached. @throws ContextError
/// one of those streams is being captured.
void trim_memory(const Device& device);

/// Page-locked host bytes, from which `device` copies asynchronously. Move only. The memory is not
/// stream-ordered: keep it alive until the copies are done.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// @throws NotFound  there is no such device. @throws OutOfMemory
  PinnedBuffer(std::size_t size_bytes, const Device& device);
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), device_(std::exchange(other.device_, nullptr)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  [[nodiscard]] std::span<std::byte> bytes() const& noexcept { return bytes_; }
  void bytes() const&& = delete;  // the span would outlive the buffer

 private:
  std::span<std::byte> bytes_;
  backend::DeviceBackend* device_ = nullptr;
};

}  // namespace lockstep

#pragma GCC visibility pop
