#include "host/host_device.hpp"

#include <cstring>
#include <utility>

namespace lockstep::host {

using backend::EventHandle;
using backend::StreamHandle;

HostDevice::HostDevice(int index, std::shared_ptr<HostMemory> memory)
    : device_(DeviceKind::cpu, index),
      memory_(std::move(memory)),
      streams_("stream", device_),
      events_("event", device_) {}

void* HostDevice::allocate(std::size_t size_bytes, StreamHandle) {
  return memory_->allocate(size_bytes, device_);
}

void HostDevice::deallocate(void* data, std::size_t size_bytes, StreamHandle) noexcept {
  memory_->deallocate(data, size_bytes);
}

void* HostDevice::allocate_pinned(std::size_t size_bytes) { return memory_->allocate(size_bytes, device_); }

void HostDevice::deallocate_pinned(void* data, std::size_t size_bytes) noexcept {
  memory_->deallocate(data, size_bytes);
}

void HostDevice::synchronize(StreamHandle stream) { streams_.check(stream, "synchronize"); }

bool HostDevice::is_complete(StreamHandle stream) {
  streams_.check(stream, "is_complete");
  return true;
}

void HostDevice::record(EventHandle event, StreamHandle stream) {
  events_.check(event, "record");
  streams_.check(stream, "record");
}

// The event may belong to another device, and only that device could tell whether it exists.
void HostDevice::wait(StreamHandle stream, EventHandle) { streams_.check(stream, "wait"); }

void HostDevice::synchronize(EventHandle event) { events_.check(event, "synchronize"); }

bool HostDevice::is_complete(EventHandle event) {
  events_.check(event, "is_complete");
  return true;
}

void HostDevice::copy(void* destination, const void* source, std::size_t size_bytes, StreamHandle) {
  // Copying a buffer onto itself is allowed, but not with memcpy.
  if (destination != source && size_bytes > 0) std::memcpy(destination, source, size_bytes);
}

void HostDevice::copy_from_host(void* destination, const void* source, std::size_t size_bytes,
                                StreamHandle stream) {
  copy(destination, source, size_bytes, stream);
}

void HostDevice::copy_to_host(void* destination, const void* source, std::size_t size_bytes,
                              StreamHandle stream) {
  copy(destination, source, size_bytes, stream);
}

void HostDevice::copy_from_peer(void* destination, const void* source, backend::DeviceBackend&,
                                std::size_t size_bytes, StreamHandle stream) {
  copy(destination, source, size_bytes, stream);
}

}  // namespace lockstep::host
