#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include <lockstep/backend/device_backend.hpp>

#include "cuda_kernels.hpp"
#include "device/cuda_memory.hpp"
#include "graphs/cuda_graphs.hpp"

namespace lockstep::cuda {

/// GPU:k, or one of several virtual devices on a GPU, which share its memory pool.
class CudaDevice final : public backend::DeviceBackend {
 public:
  /// @param ordinal  the CUDA runtime's number of the GPU.
  CudaDevice(int index, int ordinal, std::shared_ptr<CudaMemory> memory);

  const Device& device() const noexcept override { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  ~CudaDevice() override;

  /// Called at process exit. Releases what all devices hold, except what may still be in use, which the
  /// driver frees with the process.
  static void close_all() noexcept;

  void* allocate(std::size_t size_bytes, backend::StreamHandle stream) override;
  void deallocate(void* data, std::size_t size_bytes, backend::StreamHandle stream) noexcept override;
  void* allocate_pinned(std::size_t size_bytes) override;
  void deallocate_pinned(void* data, std::size_t size_bytes) noexcept override;
  MemoryStats memory_stats() const override { return memory_->stats(); }
  void trim_memory() override;

  backend::StreamHandle create_stream() override;
  void destroy_stream(backend::StreamHandle stream) noexcept override;
  void synchronize(backend::StreamHandle stream) override;
  bool is_complete(backend::StreamHandle stream) override;
  bool is_capturing(backend::StreamHandle stream) override;
  backend::EventHandle create_event() override;
  void destroy_event(backend::EventHandle event) noexcept override;
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

  CudaKernels& kernels() noexcept override { return kernels_; }
  backend::GraphBackend* graphs() noexcept override { return &graphs_; }

  /// A collective was ended before it was complete, and the streams go on with what it has left in memory.
  /// From now on every wait of the host for work of this device throws `error`, as streams hand results to
  /// each other. Any thread.
  void lose_results(std::exception_ptr error) noexcept;
  /// Ends that. Any thread.
  void forget_lost_results() noexcept;

 private:
  void close() noexcept;
  void release() noexcept;
  /// @throws what lose_results was given
  void require_results();
  void require_not_captured(const char* operation, backend::EventHandle event);

  const int ordinal_;
  const Device device_;
  const std::shared_ptr<CudaMemory> memory_;  // shared by the GPU's virtual devices
  CudaKernels kernels_;
  CudaGraphs graphs_;

  // Streams are used again: making one takes long, and memory may be freed on a stream after its owner is
  // gone. Events are not: a recorded event does not become as new again.
  std::mutex mutex_;  // guards the members below
  std::vector<cudaStream_t> all_streams_;
  std::vector<cudaStream_t> free_streams_;
  std::exception_ptr lost_results_;

  std::atomic<bool> has_lost_results_{false};  // whether there is that; most waits need not lock
};

}  // namespace lockstep::cuda
