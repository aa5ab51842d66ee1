#include "block_cache.hpp"

#include <algorithm>
#include <bit>

#include "capture.hpp"

namespace lockstep::cuda {
namespace {

cudaError_t capture_status(cudaStream_t stream, bool& captures) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t code = cudaStreamIsCapturing(stream, &status);
  captures = status != cudaStreamCaptureStatusNone;
  return code;
}

}  // namespace

// Few sizes, so that blocks fit again; large ones a multiple of what the driver maps at a time.
std::size_t BlockCache::rounded(std::size_t size_bytes) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  return size_bytes < kPage ? std::bit_ceil(std::max<std::size_t>(size_bytes, 512))
                            : (size_bytes + kPage - 1) / kPage * kPage;
}

std::int64_t BlockCache::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

// Rather a block that nobody waits for, or that its own stream freed, than one that another stream has yet to
// free.
cudaError_t BlockCache::take(std::vector<Block>& blocks, void** data, cudaStream_t stream) {
  const auto ready = std::ranges::find_if(blocks, [&](const Block& block) {
    return block.stream == stream || cudaEventQuery(block.freed) == cudaSuccess;
  });
  cudaGetLastError();
  if (ready == blocks.end()) return cudaErrorNotReady;
  if (const cudaError_t code = cudaStreamWaitEvent(stream, ready->freed); code != cudaSuccess) return code;
  *data = ready->data;
  static_cast<void>(cudaEventDestroy(ready->freed));
  blocks.erase(ready);
  return cudaSuccess;
}

cudaError_t BlockCache::allocate(void** data, std::size_t size_bytes, cudaStream_t stream) {
  bool captures = false;
  if (const cudaError_t code = capture_status(stream, captures); code != cudaSuccess) return code;
  if (captures) return cudaErrorStreamCaptureUnsupported;
  const OutsideCaptures outside;
  const std::size_t size = rounded(size_bytes);
  const std::lock_guard lock(mutex_);
  if (const cudaError_t code = take(free_[size], data, stream); code != cudaErrorNotReady) return code;
  const cudaError_t code = cudaMalloc(data, size);
  if (code == cudaSuccess) reserved_bytes_ += static_cast<std::int64_t>(size);
  return code;
}

cudaError_t BlockCache::deallocate(void* data, std::size_t size_bytes, cudaStream_t stream) {
  bool captures = false;
  if (const cudaError_t code = capture_status(stream, captures); code != cudaSuccess || captures) return code;
  cudaEvent_t freed = nullptr;
  if (const cudaError_t code = cudaEventCreateWithFlags(&freed, cudaEventDisableTiming); code != cudaSuccess)
    return code;
  if (const cudaError_t code = cudaEventRecord(freed, stream); code != cudaSuccess) {
    cudaEventDestroy(freed);
    return code;
  }
  const std::lock_guard lock(mutex_);
  free_[rounded(size_bytes)].push_back({data, stream, freed});
  return cudaSuccess;
}

cudaError_t BlockCache::trim() {
  const std::lock_guard lock(mutex_);
  cudaError_t first_error = cudaSuccess;
  const auto note = [&](cudaError_t code) {
    if (first_error == cudaSuccess) first_error = code;
  };
  for (auto& [size, blocks] : free_) {
    for (const Block& block : blocks) {
      note(cudaEventDestroy(block.freed));
      note(cudaFree(block.data));
      reserved_bytes_ -= static_cast<std::int64_t>(size);
    }
  }
  free_.clear();
  return first_error;
}

}  // namespace lockstep::cuda
