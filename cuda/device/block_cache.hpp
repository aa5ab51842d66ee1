#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "libraries/call_result.hpp"

namespace lockstep::cuda {

/// Stream-ordered device memory for GPUs that have no driver pools. Freed blocks are kept by size, and a
/// stream that takes one first waits for the stream that freed it. Only trim() calls cudaFree, which waits
/// for the device. In a capture allocations fail, and freed blocks are not used again. Thread-safe; the GPU
/// is the current device in every call.
class BlockCache {
 public:
  CallResult allocate(void** data, std::size_t size_bytes, cudaStream_t stream);
  CallResult deallocate(void* data, std::size_t size_bytes, cudaStream_t stream);
  /// Gives free blocks back. @pre No stream uses them.
  CallResult trim();
  /// The bytes that the cache holds, used or free.
  std::int64_t reserved_bytes() const;

 private:
  struct Block {
    void* data;
    cudaStream_t stream;  // the stream that freed it, at the event `freed`
    cudaEvent_t freed;
  };
  static std::size_t rounded(std::size_t size_bytes);
  CallResult take(std::vector<Block>& blocks, void** data, cudaStream_t stream);

  mutable std::mutex mutex_;  // guards the members below
  std::map<std::size_t, std::vector<Block>> free_;
  std::int64_t reserved_bytes_ = 0;
};

}  // namespace lockstep::cuda
