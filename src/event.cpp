#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>

#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "detail/tracing.hpp"

namespace lockstep {

backend::DeviceBackend& EventRef::device_backend() const {
  LOCKSTEP_EXPECTS(device_ != nullptr, ContextError,
                   "Event: used after it was moved from. Use the object that it was moved to.");
  return *device_;
}

Device EventRef::device() const { return device_backend().device(); }

void EventRef::record(const StreamRef& stream) const {
  LOCKSTEP_EXPECTS(&device_backend() == &stream.device_backend(), InvalidArgument,
                   "Event::record: the event is of ", device(), ", the stream of ", stream.device(),
                   ". Make the event on the stream's device.");
  device_->record(handle_, stream.handle());
}

void EventRef::synchronize() const {
  if (detail::TraceScope::has_rules())
    detail::require_no_trace(detail::concat("Waiting for an event of ", device()),
                             "Wait after the call of the function.");
  device_backend().synchronize(handle_);
}

bool EventRef::is_complete() const { return device_backend().is_complete(handle_); }

Event::Event(const Device& device) : Event(DeviceManager::instance().open(device)) {}

Event::Event(backend::DeviceBackend& device) : EventRef(device, device.create_event()) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    if (device_ != nullptr) device_->destroy_event(handle_);
    EventRef::operator=(other);
    other.device_ = nullptr;
  }
  return *this;
}

Event::~Event() {
  if (device_ != nullptr) device_->destroy_event(handle_);
}

}  // namespace lockstep
