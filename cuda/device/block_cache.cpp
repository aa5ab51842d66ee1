#include "device/block_cache.hpp"

#include <algorithm>
#include <bit>

#include "graphs/capture.hpp"

namespace lockstep::cuda {
namespace {

CallResult capture_status(cudaStream_t stream, bool& captures) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const CallResult asked = LOCKSTEP_CUDA_CALL(cudaStreamIsCapturing(stream, &status));
  captures = status != cudaStreamCaptureStatusNone;
  return asked;
}

}  // namespace

// There are few sizes, so that blocks fit again. Large ones are multiples of what the driver maps at a time.
std::size_t BlockCache::rounded(std::size_t size_bytes) {
  constexpr std::size_t kPage = std::size_t{2} << 20;
  return size_bytes < kPage ? std::bit_ceil(std::max<std::size_t>(size_bytes, 512))
                            : (size_bytes + kPage - 1) / kPage * kPage;
}

std::int64_t BlockCache::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_bytes_;
}

// Prefers a block that is free already, or that the same stream freed, to one that another stream has yet to
// free. Leaves `data` null where there is no block.
CallResult BlockCache::take(std::vector<Block>& blocks, void** data, cudaStream_t stream) {
  const auto ready = std::ranges::find_if(blocks, [&](const Block& block) {
    return block.stream == stream || cudaEventQuery(block.freed) == cudaSuccess;
  });
  cudaGetLastError();
  if (ready == blocks.end()) return {};
  if (const CallResult waits = LOCKSTEP_CUDA_CALL(cudaStreamWaitEvent(stream, ready->freed)); waits.failed())
    return waits;
  *data = ready->data;
  static_cast<void>(cudaEventDestroy(ready->freed));
  blocks.erase(ready);
  return {};
}

CallResult BlockCache::allocate(void** data, std::size_t size_bytes, cudaStream_t stream) {
  bool captures = false;
  if (const CallResult asked = capture_status(stream, captures); asked.failed()) return asked;
  // cudaMalloc would fail the same way, and break the capture.
  if (captures) return {cudaErrorStreamCaptureUnsupported, "cudaMalloc", {__FILE__, __LINE__, __func__}};
  const OutsideCaptures outside;
  const std::size_t size = rounded(size_bytes);
  const std::lock_guard lock(mutex_);
  *data = nullptr;
  if (const CallResult taken = take(free_[size], data, stream); taken.failed() || *data != nullptr)
    return taken;
  const CallResult made = LOCKSTEP_CUDA_CALL(cudaMalloc(data, size));
  if (!made.failed()) reserved_bytes_ += static_cast<std::int64_t>(size);
  return made;
}

CallResult BlockCache::deallocate(void* data, std::size_t size_bytes, cudaStream_t stream) {
  bool captures = false;
  if (const CallResult asked = capture_status(stream, captures); asked.failed() || captures) return asked;
  cudaEvent_t freed = nullptr;
  if (const CallResult made = LOCKSTEP_CUDA_CALL(cudaEventCreateWithFlags(&freed, cudaEventDisableTiming));
      made.failed())
    return made;
  if (const CallResult recorded = LOCKSTEP_CUDA_CALL(cudaEventRecord(freed, stream)); recorded.failed()) {
    cudaEventDestroy(freed);
    return recorded;
  }
  const std::lock_guard lock(mutex_);
  free_[rounded(size_bytes)].push_back({data, stream, freed});
  return {};
}

CallResult BlockCache::trim() {
  const std::lock_guard lock(mutex_);
  CallResult first_failure;
  const auto note = [&](const CallResult& result) {
    if (!first_failure.failed()) first_failure = result;
  };
  for (auto& [size, blocks] : free_) {
    for (const Block& block : blocks) {
      note(LOCKSTEP_CUDA_CALL(cudaEventDestroy(block.freed)));
      note(LOCKSTEP_CUDA_CALL(cudaFree(block.data)));
      reserved_bytes_ -= static_cast<std::int64_t>(size);
    }
  }
  free_.clear();
  return first_failure;
}

}  // namespace lockstep::cuda
