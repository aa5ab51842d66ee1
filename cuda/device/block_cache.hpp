#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "libraries/call_result.hpp"

namespace lockstep::cuda {

/// Stream-ordered device memory for GPUs without the driver's pools: blocks of cudaMalloc's, which are kept
/// by size when they are freed, and taken again by a stream that first waits for the one that freed them.
/// cudaFree, which waits for the device, is called by trim alone. Not in captures: there allocations fail,
/// and what is freed is not used again. Thread-safe; the GPU is the current device in every call.
class BlockCache {
 public:
  CallResult allocate(void** data, std::size_t size_bytes, cudaStream_t stream);
  CallResult deallocate(void* data, std::size_t size_bytes, cudaStream_t stream);
  /// Gives back what is free. @pre No stream uses it.
  CallResult trim();
  /// What the cache has of the driver.
  std::int64_t reserved_bytes() const;

 private:
  struct Block {
    void* data;
    cudaStream_t stream;  // which freed it, at `freed`
    cudaEvent_t freed;
  };
  static std::size_t rounded(std::size_t size_bytes);
  CallResult take(std::vector<Block>& blocks, void** data, cudaStream_t stream);

  mutable std::mutex mutex_;  // guards what follows
  std::map<std::size_t, std::vector<Block>> free_;
  std::int64_t reserved_bytes_ = 0;
};

}  // namespace lockstep::cuda
