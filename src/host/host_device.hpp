#pragma once

#include <memory>

#include <lockstep/backend/device_backend.hpp>

#include "host/host_handles.hpp"
#include "host/host_kernels.hpp"
#include "host/host_memory.hpp"

namespace lockstep::host {

/// CPU:k. Every call has done its work when it returns, so that streams and events are always complete.
class HostDevice final : public backend::DeviceBackend {
 public:
  /// @param memory  shared by all CPU:k of a NUMA node.
  HostDevice(int index, std::shared_ptr<HostMemory> memory);

  const Device& device() const noexcept override { return device_; }

  void* allocate(std::size_t size_bytes, backend::StreamHandle stream) override;
  void deallocate(void* data, std::size_t size_bytes, backend::StreamHandle stream) noexcept override;
  void* allocate_pinned(std::size_t size_bytes) override;
  void deallocate_pinned(void* data, std::size_t size_bytes) noexcept override;
  MemoryStats memory_stats() const override { return memory_->stats(); }
  void trim_memory() override { memory_->trim(); }

  backend::StreamHandle create_stream() override { return streams_.create(); }
  void destroy_stream(backend::StreamHandle stream) noexcept override { streams_.destroy(stream); }
  void synchronize(backend::StreamHandle stream) override;
  bool is_complete(backend::StreamHandle stream) override;
  backend::EventHandle create_event() override { return events_.create(); }
  void destroy_event(backend::EventHandle event) noexcept override { events_.destroy(event); }
  void record(backend::EventHandle event, backend::StreamHandle stream) override;
  void wait(backend::StreamHandle stream, backend::EventHandle event) override;
  void synchronize(backend::EventHandle event) override;
  bool is_complete(backend::EventHandle event) override;

  void copy(void* destination, const void* source, std::size_t size_bytes,
            backend::StreamHandle stream) override;
  void copy_from_host(void* destination, const void* source, std::size_t size_bytes,
                      backend::StreamHandle stream) override;
  void copy_to_host(void* destination, const void* source, std::size_t size_bytes,
                    backend::StreamHandle stream) override;
  void copy_from_peer(void* destination, const void* source, backend::DeviceBackend& source_device,
                      std::size_t size_bytes, backend::StreamHandle stream) override;

  backend::KernelBackend& kernels() noexcept override { return kernels_; }

 private:
  const Device device_;
  const std::shared_ptr<HostMemory> memory_;
  HostHandles<backend::StreamHandle> streams_;
  HostHandles<backend::EventHandle> events_;
  HostKernels kernels_;
};

}  // namespace lockstep::host
