#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/event.hpp>
#include <lockstep/stream.hpp>

#include "detail/concat.hpp"
#include "detail/expects.hpp"
#include "detail/tracing.hpp"

namespace lockstep {

namespace {

thread_local StreamScope* innermost_scope = nullptr;

}  // namespace

backend::DeviceBackend& StreamRef::device_backend() const {
  LOCKSTEP_EXPECTS(device_ != nullptr, ContextError,
                   "Stream: used after it was moved from. Use the object that it was moved to.");
  return *device_;
}

Device StreamRef::device() const { return device_backend().device(); }

void StreamRef::synchronize() const {
  if (detail::TraceScope::has_rules())
    detail::require_no_trace(detail::concat("Waiting for a stream of ", device()),
                             "Wait after the call of the function.");
  device_backend().synchronize(handle_);
}

bool StreamRef::is_complete() const { return device_backend().is_complete(handle_); }

void StreamRef::wait(const EventRef& event) const {
  backend::DeviceBackend& other = event.device_backend();
  if (other.device().kind() == device_backend().device().kind()) {
    device_->wait(handle_, event.handle());
  } else {
    other.synchronize(event.handle());  // no backend can wait for another backend's events
  }
}

void StreamRef::wait(const StreamRef& other) const {
  backend::DeviceBackend& mine = device_backend();
  if (*this == other) return;
  if (other.device_backend().device().kind() != mine.device().kind()) return other.synchronize();
  // A capture can wait neither for work outside it nor for an event that an idle stream has yet to record.
  if (mine.is_capturing(handle_) && !other.device_backend().is_capturing(other.handle()) &&
      other.is_complete())
    return;
  const Event event(other.device_backend());
  event.record(other);
  wait(event);
}

Stream::Stream(const Device& device) : Stream(DeviceManager::instance().open(device)) {}

Stream::Stream(backend::DeviceBackend& device) : StreamRef(device, device.create_stream()) {}

Stream Stream::urgent(const Device& device) {
  backend::DeviceBackend& opened = DeviceManager::instance().open(device);
  return {opened, opened.create_urgent_stream()};
}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    if (device_ != nullptr) device_->destroy_stream(handle_);
    StreamRef::operator=(other);
    other.device_ = nullptr;
  }
  return *this;
}

Stream::~Stream() {
  if (device_ != nullptr) device_->destroy_stream(handle_);
}

StreamRef Stream::borrow(CUstream_st* stream, const Device& device) {
  LOCKSTEP_EXPECTS(
      device.kind() == DeviceKind::gpu, InvalidArgument, "Stream::borrow: ", device,
      " is not a GPU, and only GPUs have CUDA streams. Pass the GPU that the stream was made on.");
  // The CUDA backend's handles are the driver's own. Handle 0 is null here; 1 is the driver's name for the
  // legacy stream.
  const auto address = reinterpret_cast<std::uintptr_t>(stream);
  return {DeviceManager::instance().open(device), backend::StreamHandle(address == 0 ? 1 : address)};
}

StreamRef default_stream(backend::DeviceBackend& device) { return {device, device.default_stream_handle()}; }

StreamRef current_stream(const Device& device) {
  for (const StreamScope* scope = innermost_scope; scope != nullptr; scope = scope->outer()) {
    if (scope->stream_.device_backend().device() == device) return scope->stream_;
  }
  return default_stream(DeviceManager::instance().open(device));
}

StreamRef current_stream(backend::DeviceBackend& device) {
  for (const StreamScope* scope = innermost_scope; scope != nullptr; scope = scope->outer())
    if (&scope->stream_.device_backend() == &device) return scope->stream_;
  return default_stream(device);
}

bool detail::is_in_capture(DeviceKind kind) {
  for (const StreamScope* scope = innermost_scope; scope != nullptr; scope = scope->outer()) {
    backend::DeviceBackend& device = scope->stream_.device_backend();
    if (device.device().kind() == kind && device.is_capturing(scope->stream_.handle())) return true;
  }
  return false;
}

StreamScope::StreamScope(StreamRef stream) : stream_(stream) {
  static_cast<void>(stream_.device_backend());  // throws for a moved-from Stream
}

StreamScope*& StreamScope::innermost() noexcept { return innermost_scope; }

}  // namespace lockstep
