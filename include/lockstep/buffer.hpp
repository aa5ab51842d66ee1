#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <lockstep/stream.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Bytes on one device, allocated and freed in stream order. Move only. Aligned to at least 256 bytes.
///
/// Work that uses the buffer must be enqueued on its stream, or ordered before the destructor on that stream
/// by events.
class Buffer {
 public:
  /// No bytes; belongs to no device.
  Buffer() = default;
  /// @param size_bytes  0 is allowed and allocates nothing.
  /// @throws OutOfMemory  bytes requested, bytes free, device.
  Buffer(std::size_t size_bytes, StreamRef stream);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// The stream that frees it. @throws ContextError  this belongs to no device.
  [[nodiscard]] StreamRef stream() const;
  /// The bytes of a buffer on the host.
  /// @throws InvalidArgument  the buffer is on another kind of device.
  /// @throws ContextError  this belongs to no device: default-constructed or moved-from.
  [[nodiscard]] std::span<std::byte> host_bytes() const&;
  void host_bytes() const&& = delete;  // would outlive them
  /// A copy, made on `stream`.
  /// @throws InvalidArgument  the stream is of another device; names both.
  /// @throws ContextError  this belongs to no device.
  [[nodiscard]] Buffer clone(StreamRef stream) const;
  /// From now on the buffer is `stream`'s, which frees it; the caller has ordered that after all work so far.
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
