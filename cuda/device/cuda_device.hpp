#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/loss.hpp>

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
  int ordinal() const noexcept override { return ordinal_; }
  bool is_closed() const noexcept override { return is_closed_; }
  ~CudaDevice() override;

  /// Called at process exit. Releases what all devices hold, except what may still be in use, which the
  /// driver frees with the process.
  static void close_all() noexcept;

  void* allocate(std::size_t size_bytes, backend::StreamHandle stream) override;
  void deallocate(void* data, std::size_t size_bytes, backend::StreamHandle stream) noexcept override;
  void* allocate_pinned(std::size_t size_bytes) override;
  void deallocate_pinned(void* data, std::size_t size_bytes) noexcept override;
  bool is_pinned(const void* data) override;
  MemoryStats memory_stats() const override { return memory_->stats(); }
  void trim_memory() override;

  backend::StreamHandle create_stream() override { return create_stream(/*urgent=*/false); }
  backend::StreamHandle create_urgent_stream() override { return create_stream(/*urgent=*/true); }
  void destroy_stream(backend::StreamHandle stream) noexcept override;
  void synchronize(backend::StreamHandle stream) override;
  bool is_complete(backend::StreamHandle stream) override;
  void finish(backend::StreamHandle stream) noexcept override;
  bool is_capturing(backend::StreamHandle stream) override;
  bool has_failed_capture(backend::StreamHandle stream) override;
  void give_out(backend::StreamHandle stream) noexcept override;
  void give_out(backend::EventHandle event) noexcept override;
  backend::EventHandle create_event() override;
  void destroy_event(backend::EventHandle event) noexcept override;
  void record(backend::EventHandle event, backend::StreamHandle stream) override;
  void wait(backend::StreamHandle stream, backend::EventHandle event) override;
  void synchronize(backend::EventHandle event) override;
  bool is_complete(backend::EventHandle event) override;
  /// @throws DeviceError, ContextError
  bool has_passed(backend::EventHandle event) override;

  void copy(void* destination, const void* source, std::size_t size_bytes,
            backend::StreamHandle stream) override;
  void copy_from_host(void* destination, const void* source, std::size_t size_bytes,
                      backend::StreamHandle stream) override;
  void copy_to_host(void* destination, const void* source, std::size_t size_bytes,
                    backend::StreamHandle stream) override;
  void copy_from_peer(void* destination, const void* source, backend::DeviceBackend& source_device,
                      std::size_t size_bytes, backend::StreamHandle stream) override;

  /// Whether kernels of this device and of another reach the memory of each other's pools. The first call for
  /// a pair waits for small copies.
  bool reaches(CudaDevice& other) noexcept;

  /// Makes the GPU the thread's current one, so that no call has to.
  void bind_thread() override;
  CudaKernels& kernels() noexcept override { return kernels_; }
  backend::GraphBackend* graphs() noexcept override { return &graphs_; }

  void lose_results(std::shared_ptr<backend::Loss> loss) override;
  /// A communicator is made. Any thread.
  void begin_results() noexcept;

 private:
  backend::StreamHandle create_stream(bool urgent);
  void close() noexcept;
  void await(backend::StreamHandle stream);
  void release() noexcept;
  /// @throws PeerLost, CollectiveTimeout  results are lost.
  void require_results();
  void forget_known_losses() noexcept;  // mutex_ is held
  /// @param failed  begins the message's reason.
  void require_not_captured(const char* operation, backend::EventHandle event, const char* failed = "");

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
  std::vector<cudaStream_t> urgent_streams_;            // of all
  std::vector<std::shared_ptr<backend::Loss>> losses_;  // of results
  backend::Loss::Moment begun_ = 0;                     // when the last communicator was made

  std::atomic<bool> is_closed_{false};         // whether release() was called
  std::atomic<bool> has_lost_results_{false};  // whether there are losses_; most waits need not lock
};

}  // namespace lockstep::cuda
