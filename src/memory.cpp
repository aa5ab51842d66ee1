#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/memory.hpp>

namespace lockstep {

MemoryStats memory_stats(const Device& device) {
  return DeviceManager::instance().open(device).memory_stats();
}

void trim_memory(const Device& device) { DeviceManager::instance().open(device).trim_memory(); }

PinnedBuffer::PinnedBuffer(std::size_t size_bytes, const Device& device)
    : device_(&DeviceManager::instance().open(device)) {
  if (size_bytes > 0) bytes_ = {static_cast<std::byte*>(device_->allocate_pinned(size_bytes)), size_bytes};
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (!bytes_.empty()) device_->deallocate_pinned(bytes_.data(), bytes_.size());
}

}  // namespace lockstep
