#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include <lockstep/device.hpp>
#include <lockstep/memory_stats.hpp>

#include "block_cache.hpp"
#include "graph_memory.hpp"

namespace lockstep::cuda {

/// A GPU's memory: one stream-ordered pool, shared by the virtual devices on it, that keeps what is freed; a
/// BlockCache where the driver has no pools for the GPU. What CUDA graphs use is theirs as long as they live
/// (GraphMemory). Thread-safe.
class CudaMemory {
 public:
  /// @param ordinal  the CUDA runtime's number of the GPU. Makes its context. @throws DeviceError
  CudaMemory(int ordinal, const Device& device);
  ~CudaMemory() { close(); }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  /// @throws OutOfMemory  after all cached memory was given back in vain. A capture lives on.
  void* allocate(std::size_t size_bytes, cudaStream_t stream, const Device& device);
  void deallocate(void* data, std::size_t size_bytes, cudaStream_t stream) noexcept;
  MemoryStats stats() const;
  void trim();

  /// Null: there are none for this GPU.
  cudaMemPool_t pool() const { return pool_; }
  bool is_idle() const { return in_use_bytes_.load() == 0; }
  /// Gives everything back. Later calls do nothing.
  void close() noexcept;

 private:
  cudaError_t take(void** data, std::size_t size_bytes, cudaStream_t stream);
  cudaError_t give_back(void* data, std::size_t size_bytes, cudaStream_t stream);
  cudaError_t trim_cache();
  void collect() noexcept;
  std::int64_t reserved_bytes() const;

  const int ordinal_;
  const Device device_;
  cudaMemPool_t pool_ = nullptr;
  BlockCache blocks_;  // used where there is no pool
  GraphMemory graphs_{device_};
  std::mutex captured_mutex_;  // of the pool while a capture allocates from it
  std::atomic<bool> closed_{false};
  std::atomic<std::int64_t> in_use_bytes_{0};
  std::atomic<std::int64_t> last_reserved_bytes_{0};
  std::atomic<std::int64_t> num_allocations_{0};
};

/// Page-locked host memory for all GPUs of the process, cached by size: locking pages takes milliseconds.
/// Thread-safe.
class PinnedMemory {
 public:
  static PinnedMemory& instance();

  /// @param ordinal  of the GPU whose context the driver locks the pages in.
  /// @throws OutOfMemory
  void* allocate(std::size_t size_bytes, int ordinal, const Device& device);
  void deallocate(void* data, std::size_t size_bytes) noexcept;
  /// Gives back what nobody uses.
  void trim() noexcept;

 private:
  static std::size_t rounded(std::size_t size_bytes);

  std::atomic<int> ordinal_{0};  // of a GPU in use: without one there is nothing to give back
  std::mutex mutex_;             // guards free_
  std::map<std::size_t, std::vector<void*>> free_;
};

}  // namespace lockstep::cuda
