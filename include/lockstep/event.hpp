#pragma once

#include <lockstep/backend/handles.hpp>
#include <lockstep/device.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class StreamRef;
namespace backend {
class DeviceBackend;
}

/// A point in a stream, not owned. Cheap to copy.
class EventRef {
 public:
  EventRef(backend::DeviceBackend& device, backend::EventHandle handle) : device_(&device), handle_(handle) {}

  [[nodiscard]] Device device() const;
  /// @throws ContextError  this is a moved-from Event.
  [[nodiscard]] backend::DeviceBackend& device_backend() const;
  [[nodiscard]] backend::EventHandle handle() const noexcept { return handle_; }

  /// Marks the work enqueued on `stream` so far, replacing an earlier mark.
  /// @throws InvalidArgument  the stream is of another device; names both.
  void record(const StreamRef& stream) const;
  /// Blocks until the marked work is done; returns at once when nothing was recorded.
  /// @throws as StreamRef::synchronize
  void synchronize() const;
  /// Whether the marked work is done (true when nothing was recorded); does not block. @throws as synchronize
  [[nodiscard]] bool is_complete() const;

 protected:
  backend::DeviceBackend* device_;
  backend::EventHandle handle_;
};

/// Owns an event. Move only; using a moved-from Event throws ContextError.
class Event : public EventRef {
 public:
  /// @throws NotFound  there is no such device.
  explicit Event(const Device& device);
  explicit Event(backend::DeviceBackend& device);
  Event(Event&& other) noexcept : EventRef(other) { other.device_ = nullptr; }
  Event& operator=(Event&& other) noexcept;
  ~Event();
};

}  // namespace lockstep

#pragma GCC visibility pop
