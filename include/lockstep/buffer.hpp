#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/stream.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Bytes on one device, allocated and freed in stream order. Move only. Aligned to at least 256 bytes.
///
/// Work that uses the buffer must be enqueued on the buffer's stream, or be ordered by events before the
/// destructor on that stream.
class Buffer {
 public:
  /// An empty buffer, which belongs to no device.
  Buffer() = default;
  /// @param size_bytes  0 is allowed and allocates nothing.
  /// @throws OutOfMemory  bytes requested, bytes free, device.
  Buffer(std::size_t size_bytes, StreamRef stream);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  /// Whether the buffer belongs to a device; one of 0 bytes does, too.
  [[nodiscard]] bool defined() const noexcept { return device_ != nullptr; }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// The stream that frees the memory. @throws ContextError  this belongs to no device.
  [[nodiscard]] StreamRef stream() const;
  /// The bytes of a buffer on the host.
  /// @throws InvalidArgument  the buffer is not on the host.
  /// @throws ContextError  this belongs to no device: default-constructed or moved-from.
  [[nodiscard]] std::span<std::byte> host_bytes() const&;
  void host_bytes() const&& = delete;  // the span would outlive the buffer
  /// A copy on the same device, enqueued on `stream`.
  /// @throws InvalidArgument  the stream is of another device; names both.
  /// @throws ContextError  this belongs to no device.
  [[nodiscard]] Buffer clone(StreamRef stream) const;
  /// Makes `stream` the buffer's stream, which will free it. The caller has ordered `stream` after all work
  /// so far.
  /// @throws InvalidArgument  the stream is of another device; names both.
  /// @throws ContextError  this belongs to no device.
  void set_stream(StreamRef stream);

 private:
  void release() noexcept;

  void* data_ = nullptr;
  std::size_t size_bytes_ = 0;
  backend::DeviceBackend* device_ = nullptr;
  backend::StreamHandle stream_{};
};

}  // namespace lockstep

#pragma GCC visibility pop
