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

#include "device/block_cache.hpp"
#include "device/stream_cache.hpp"
#include "graphs/graph_memory.hpp"

namespace lockstep::cuda {

/// A GPU's memory: one stream-ordered pool, which keeps freed memory and is shared by the GPU's virtual
/// devices, or a BlockCache where the driver has no pools for the GPU; a StreamCache before it. GraphMemory
/// keeps what CUDA graphs use as long as they live. Thread-safe.
class CudaMemory {
 public:
  /// @param ordinal  the CUDA runtime's number of the GPU. Makes its context. @throws DeviceError
  /// @throws InvalidArgument  StreamCache::kVariable in the environment is no number of bytes.
  CudaMemory(int ordinal, const Device& device);
  ~CudaMemory() { close(); }
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  /// @throws OutOfMemory  although all cached memory was given back. A capture goes on.
  void* allocate(std::size_t size_bytes, cudaStream_t stream, const Device& device);
  void deallocate(void* data, std::size_t size_bytes, cudaStream_t stream) noexcept;
  /// GraphMemory::free_after. The GPU's context is current.
  void free_after(unsigned long long capture, cudaStream_t stream) noexcept {
    graphs_.free_after(capture, stream);
  }
  MemoryStats stats() const;
  /// @param device  for messages. @pre is_captured() is false, for all of it to be free.
  void trim(const Device& device);

  /// Registers a stream of one of the GPU's devices, which keeps it until close().
  void add(cudaStream_t stream);
  /// Whether a stream of a device of the GPU is in a capture. The GPU's context is current.
  bool is_captured() const;

  /// Null where the driver has no pools for the GPU.
  cudaMemPool_t pool() const { return pool_; }
  /// Whether no memory is in use. @throws DeviceError
  bool is_idle();
  /// Gives everything back. Later calls do nothing.
  void close() noexcept;

 private:
  CallResult take(void** data, std::size_t size_bytes, cudaStream_t stream);
  void give_back(void* data, std::size_t size_bytes, cudaStream_t stream) noexcept;
  CallResult wait_for_frees();
  CallResult trim_cache();
  void collect() noexcept;
  bool has_no_graphs() const;
  void* take_cached(std::size_t size_bytes, cudaStream_t stream);
  void drain_cache();
  std::int64_t reserved_bytes() const;

  const int ordinal_;
  const Device device_;
  cudaMemPool_t pool_ = nullptr;
  BlockCache blocks_;  // used where there is no pool
  StreamCache cache_;
  GraphMemory graphs_{device_};
  mutable std::mutex streams_mutex_;  // guards streams_
  std::vector<cudaStream_t> streams_;
  std::atomic<bool> closed_{false};
  std::atomic<std::int64_t> in_use_bytes_{0};
  // CUDA does not tell when the pool grows, so whoever asks for statistics looks.
  mutable std::atomic<std::int64_t> last_reserved_bytes_{0};
  mutable std::atomic<std::int64_t> num_allocations_{0};
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
  /// Gives unused memory back.
  void trim() noexcept;

 private:
  static std::size_t rounded(std::size_t size_bytes);

  std::atomic<int> ordinal_{0};  // of a GPU that memory was allocated for
  std::mutex mutex_;             // guards free_
  std::map<std::size_t, std::vector<void*>> free_;
};

}  // namespace lockstep::cuda
