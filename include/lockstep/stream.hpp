#pragma once

#include <lockstep/backend/handles.hpp>
#include <lockstep/detail/thread_guard.hpp>
#include <lockstep/device.hpp>

#pragma GCC visibility push(default)

struct CUstream_st;

namespace lockstep {

class EventRef;
namespace backend {
class DeviceBackend;
}

/// A queue of work on one device, not owned. Cheap to copy. Work on one stream runs in order; only events
/// order two streams. Any thread may enqueue; the threads themselves must order their calls.
class StreamRef {
 public:
  StreamRef(backend::DeviceBackend& device, backend::StreamHandle handle)
      : device_(&device), handle_(handle) {}

  [[nodiscard]] Device device() const;
  /// @throws ContextError  this is a moved-from Stream.
  [[nodiscard]] backend::DeviceBackend& device_backend() const;
  [[nodiscard]] backend::StreamHandle handle() const noexcept { return handle_; }

  /// Blocks until all work enqueued so far is done.
  /// @throws DeviceError  the work failed. @throws PeerLost  its results may be those of a collective that
  /// has ended with a worker. @throws ContextError  the stream is being captured.
  void synchronize() const;
  /// Whether all work enqueued so far is done; does not block. @throws as synchronize
  [[nodiscard]] bool is_complete() const;
  /// Work enqueued here afterwards starts after `event`, as last recorded. Does not block the host, except as
  /// said below. The event may belong to another device. An event that was never recorded orders nothing.
  ///
  /// A stream that is being captured ignores an event whose work lies outside the capture and is done.
  /// @throws ContextError  this stream is being captured, and the event's work is not done or belongs to
  /// another capture; the captures stay valid. Or the event was recorded in a capture that has ended.
  ///
  /// If the two devices are of different kinds, the calling thread waits for the event, because threads do a
  /// CPU's work.
  void wait(const EventRef& event) const;
  /// Work enqueued here afterwards starts after all work enqueued on `other` so far.
  void wait(const StreamRef& other) const;

  friend bool operator==(const StreamRef&, const StreamRef&) = default;

 protected:
  backend::DeviceBackend* device_;
  backend::StreamHandle handle_;
};

/// Owns a stream. Move only; using a moved-from Stream throws ContextError. Destruction does not wait.
class Stream : public StreamRef {
 public:
  /// @throws NotFound  there is no such device.
  explicit Stream(const Device& device);
  explicit Stream(backend::DeviceBackend& device);
  Stream(Stream&& other) noexcept : StreamRef(other) { other.device_ = nullptr; }
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  /// A stream for work that others wait for, such as communication: where the hardware can choose, it begins
  /// before that of other streams. @throws NotFound  there is no such device.
  [[nodiscard]] static Stream urgent(const Device& device);

  /// A view of a stream that an engine made with the CUDA runtime or driver. The engine keeps the stream
  /// alive until the memory that was allocated on it is freed. Memory that is older than a capture of the
  /// stream, and was released during the capture, is freed by the first allocation or trim_memory after the
  /// end of the graph. Null is the legacy default stream.
  /// @throws InvalidArgument  `device` is not a GPU.
  /// @throws NotFound  there is no such device.
  [[nodiscard]] static StreamRef borrow(CUstream_st* stream, const Device& device);

 private:
  Stream(backend::DeviceBackend& device, backend::StreamHandle owned) : StreamRef(device, owned) {}
};

/// The device's own stream, which lives as long as the process.
[[nodiscard]] StreamRef default_stream(backend::DeviceBackend& device);

/// The stream on which the library's high-level calls (Tensor, strategies) enqueue work for `device` on this
/// thread: the innermost StreamScope's, else the device's own stream.
/// @throws NotFound  there is no such device.
[[nodiscard]] StreamRef current_stream(const Device& device);
/// The same for a device that is open already.
[[nodiscard]] StreamRef current_stream(backend::DeviceBackend& device);

namespace detail {
/// Whether a StreamScope of this thread, for any device of this kind, has a stream that is being captured.
[[nodiscard]] bool is_in_capture(DeviceKind kind);
}  // namespace detail

/// Makes `stream` the current one of its device on this thread, until the end of the block.
class [[nodiscard]] StreamScope : public detail::ThreadGuard<StreamScope> {
 public:
  explicit StreamScope(StreamRef stream);

 private:
  friend class detail::ThreadGuard<StreamScope>;
  static constexpr std::string_view kGuardName = "a StreamScope";
  static StreamScope*& innermost() noexcept;

  StreamRef stream_;
  friend StreamRef current_stream(const Device& device);
  friend StreamRef current_stream(backend::DeviceBackend& device);
  friend bool detail::is_in_capture(DeviceKind kind);
};

}  // namespace lockstep

#pragma GCC visibility pop
