#include "device/cuda_memory.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <optional>

#include "detail/expects.hpp"
#include "detail/immortal.hpp"
#include "device/device_guard.hpp"
#include "device/environment_bytes.hpp"
#include "graphs/capture.hpp"
#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {
namespace {

constexpr const char* kOperation = "Making the device's memory pool";

std::int64_t most_cached_bytes() {
  const std::int64_t given = bytes_in_environment(StreamCache::kVariable, kOperation);
  return given >= 0 ? given : StreamCache::kDefaultMostBytes;
}

}  // namespace

CudaMemory::CudaMemory(int ordinal, const Device& device)
    : ordinal_(ordinal), device_(device), cache_(most_cached_bytes()) {
  const DeviceGuard guard(ordinal, device);
  const OutsideCaptures outside;
  int has_pools = 0;
  LOCKSTEP_CUDA_CHECK(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal), device,
                      kOperation);
  if (has_pools == 0) return;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, ordinal};
  LOCKSTEP_CUDA_CHECK(cudaMemPoolCreate(&pool_, &properties), device, kOperation);
  // Otherwise the pool would give its memory back at every synchronisation.
  std::uint64_t keep_all = UINT64_MAX;
  CallResult set =
      LOCKSTEP_CUDA_CALL(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep_all));
  // Otherwise an allocation could make its stream wait for another's pending free: computation for
  // communication, or a capture for what is outside it.
  int no_waits = 0;
  if (!set.failed())
    set = LOCKSTEP_CUDA_CALL(
        cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &no_waits));
  if (set.failed()) LOCKSTEP_CUDA_LOG(cudaMemPoolDestroy(pool_));
  set.require(device, kOperation);
}

CallResult CudaMemory::take(void** data, std::size_t size_bytes, cudaStream_t stream) {
  size_bytes = cache_.rounded(size_bytes);
  return pool_ != nullptr ? LOCKSTEP_CUDA_CALL(cudaMallocFromPoolAsync(data, size_bytes, pool_, stream))
                          : blocks_.allocate(data, size_bytes, stream);
}

void CudaMemory::give_back(void* data, std::size_t size_bytes, cudaStream_t stream) noexcept {
  const CallResult freed = pool_ != nullptr ? LOCKSTEP_CUDA_CALL(cudaFreeAsync(data, stream))
                                            : blocks_.deallocate(data, cache_.rounded(size_bytes), stream);
  freed.log();
}

void CudaMemory::drain_cache() {
  cache_.drain([this](void* data, std::size_t size_bytes, cudaStream_t stream) {
    give_back(data, size_bytes, stream);
  });
}

void CudaMemory::collect() noexcept {
  in_use_bytes_ -= static_cast<std::int64_t>(
      graphs_.collect([this](void* data, std::size_t size_bytes, cudaStream_t stream) {
        give_back(data, size_bytes, stream);
      }));
}

bool CudaMemory::is_idle() {
  if (!closed_ && in_use_bytes_ != 0) {
    const DeviceGuard guard(ordinal_, device_);
    collect();
  }
  return in_use_bytes_ == 0;
}

void CudaMemory::add(cudaStream_t stream) {
  const std::lock_guard lock(streams_mutex_);
  streams_.push_back(stream);
}

bool CudaMemory::is_captured() const {
  const std::lock_guard lock(streams_mutex_);
  return std::ranges::any_of(streams_, is_in_capture);
}

// Memory that was freed in stream order is free when the streams have got there. Waiting for the whole device
// would end the captures of its streams.
CallResult CudaMemory::wait_for_frees() {
  std::vector<cudaStream_t> streams;
  {
    const std::lock_guard lock(streams_mutex_);
    std::ranges::remove_copy_if(streams_, std::back_inserter(streams), is_in_capture);
  }
  CallResult waited = graphs_.synchronize();
  for (const cudaStream_t stream : streams) {
    if (!waited.failed()) waited = LOCKSTEP_CUDA_CALL(cudaStreamSynchronize(stream));
  }
  return waited;
}

CallResult CudaMemory::trim_cache() {
  const OutsideCaptures outside;
  drain_cache();
  if (const CallResult waited = wait_for_frees(); waited.failed()) return waited;
  return pool_ != nullptr ? LOCKSTEP_CUDA_CALL(cudaMemPoolTrimTo(pool_, 0)) : blocks_.trim();
}

void* CudaMemory::allocate(std::size_t size_bytes, cudaStream_t stream, const Device& device) {
  if (has_no_graphs())
    if (void* const data = take_cached(size_bytes, stream)) return data;
  const DeviceGuard guard(ordinal_, device);
  collect();
  const Capture capture = capture_of(stream, device);
  void* data = capture ? graphs_.reuse(capture, stream, size_bytes) : take_cached(size_bytes, stream);
  if (data != nullptr) return data;
  std::optional<OutsideCaptures> outside;
  if (capture) {
    outside.emplace();
    stream = graphs_.stream();
  }
  CallResult taken = take(&data, size_bytes, stream);
  if (taken.code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    static_cast<void>(trim_cache());
    cudaGetLastError();
    taken = take(&data, size_bytes, stream);
  }
  if (taken.code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    const MemoryStats now = stats();
    LOCKSTEP_EXPECTS(false, OutOfMemory, "allocate on ", device, ": ", size_bytes, " bytes requested, ",
                     now.free_bytes, " bytes free, ", now.in_use_bytes,
                     " in use by this process. Free tensors, make batches smaller, or use more devices.");
  }
  taken.require(device, "Allocating device memory");
  if (capture) try {
      LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(stream), device, "Allocating device memory");
      graphs_.hold(capture, data, size_bytes);
    } catch (const Error&) {
      give_back(data, size_bytes, stream);
      throw;
    }
  in_use_bytes_ += static_cast<std::int64_t>(size_bytes);
  return data;
}

void CudaMemory::deallocate(void* data, std::size_t size_bytes, cudaStream_t stream) noexcept try {
  if (closed_) return;
  if (has_no_graphs() && cache_.keep(data, size_bytes, stream)) {
    in_use_bytes_ -= static_cast<std::int64_t>(size_bytes);
    return;
  }
  const DeviceGuard guard(ordinal_, device_);
  collect();
  if (graphs_.drop(data, size_bytes, stream)) return;
  in_use_bytes_ -= static_cast<std::int64_t>(size_bytes);
  if (cache_.keep(data, size_bytes, stream)) return;
  if (cache_.serves(stream, size_bytes)) {
    drain_cache();  // it is full: sizes that are no longer asked for must not keep others out
    if (cache_.keep(data, size_bytes, stream)) return;
  }
  give_back(data, size_bytes, stream);
} catch (const Error&) {  // nobody can use the memory again
  in_use_bytes_ -= static_cast<std::int64_t>(size_bytes);
}

// Then there is nothing to collect, and no graph uses what its owner drops. A fork must be refused: another
// thread may have held a mutex.
bool CudaMemory::has_no_graphs() const { return graphs_.is_empty() && !is_fork_of_user(); }

void* CudaMemory::take_cached(std::size_t size_bytes, cudaStream_t stream) {
  void* const data = cache_.take(stream, size_bytes);
  if (data != nullptr) in_use_bytes_ += static_cast<std::int64_t>(size_bytes);
  return data;
}

std::int64_t CudaMemory::reserved_bytes() const {
  if (pool_ == nullptr) return blocks_.reserved_bytes();
  std::uint64_t value = 0;
  if (cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &value) != cudaSuccess)
    cudaGetLastError();
  return static_cast<std::int64_t>(value);
}

MemoryStats CudaMemory::stats() const {
  const DeviceGuard guard(ordinal_, device_);
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  const std::int64_t in_use = in_use_bytes_;
  const std::int64_t reserved = reserved_bytes();
  if (last_reserved_bytes_.exchange(reserved) < reserved) ++num_allocations_;
  return {.in_use_bytes = in_use,
          .cached_bytes = std::max<std::int64_t>(0, reserved - in_use),
          .free_bytes = static_cast<std::int64_t>(free),
          .num_allocations = num_allocations_};
}

void CudaMemory::trim(const Device& device) {
  const DeviceGuard guard(ordinal_, device);
  collect();
  trim_cache().require(device, "trim_memory");
  last_reserved_bytes_ = reserved_bytes();
}

void CudaMemory::close() noexcept try {
  if (is_fork_of_user() || closed_.exchange(true)) return;
  const DeviceGuard guard(ordinal_, device_);
  drain_cache();
  wait_for_frees().log();
  graphs_.close([this](void* data, std::size_t size_bytes, cudaStream_t stream) {
    give_back(data, size_bytes, stream);
  });
  {
    const std::lock_guard lock(streams_mutex_);
    streams_.clear();
  }
  if (pool_ != nullptr) {
    LOCKSTEP_CUDA_LOG(cudaMemPoolDestroy(pool_));
  } else {
    blocks_.trim().log();
  }
} catch (const Error&) {  // the memory is lost with the device
}

PinnedMemory& PinnedMemory::instance() { return lockstep::detail::immortal<PinnedMemory>(); }

std::size_t PinnedMemory::rounded(std::size_t size_bytes) {
  return std::bit_ceil(std::max<std::size_t>(size_bytes, 4096));
}

void* PinnedMemory::allocate(std::size_t size_bytes, int ordinal, const Device& device) {
  use_in_this_process(device);
  const std::size_t size = rounded(size_bytes);
  {
    const std::lock_guard lock(mutex_);
    if (auto& blocks = free_[size]; !blocks.empty()) {
      void* const block = blocks.back();
      blocks.pop_back();
      return block;
    }
  }
  const DeviceGuard guard(ordinal, device);
  const OutsideCaptures outside;
  ordinal_ = ordinal;
  void* data = nullptr;
  cudaError_t code = cudaHostAlloc(&data, size, cudaHostAllocPortable);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    trim();
    code = cudaHostAlloc(&data, size, cudaHostAllocPortable);
  }
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    LOCKSTEP_EXPECTS(false, OutOfMemory, "allocate page-locked host memory for ", device, ": ", size_bytes,
                     " bytes requested, the system has no more. Free some, or use ordinary memory.");
  }
  if (code != cudaSuccess)
    throw_cuda_error(code, "cudaHostAlloc", {__FILE__, __LINE__, __func__}, device,
                     "Allocating page-locked host memory");
  return data;
}

void PinnedMemory::deallocate(void* data, std::size_t size_bytes) noexcept {
  if (is_fork_of_user()) return;
  const std::lock_guard lock(mutex_);
  free_[rounded(size_bytes)].push_back(data);
}

void PinnedMemory::trim() noexcept try {
  if (is_fork_of_user()) return;
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return;
  const DeviceGuard guard(ordinal_, {});
  const OutsideCaptures outside;
  for (auto& [size, blocks] : free_) {
    for (void* const block : blocks) LOCKSTEP_CUDA_LOG(cudaFreeHost(block));
  }
  free_.clear();
} catch (const Error&) {  // the driver has gone, and the memory with it
}

}  // namespace lockstep::cuda
