#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include <cuda_runtime.h>

#include "device/device_guard.hpp"
#include "kernels/launch.hpp"
#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {

inline constexpr int kThreads = 256;

/// Blocks of kThreads for `num_threads` threads of work: one for each, as blocks that end make way for others
/// at once. Kernels step through what is left where a grid cannot hold them.
inline unsigned blocks_for(std::int64_t num_threads) {
  constexpr std::int64_t kMostBlocks = std::numeric_limits<std::int32_t>::max();
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((num_threads + kThreads - 1) / kThreads, 1, kMostBlocks));
}

/// Enqueues kernel(arguments...) whose blocks have `shared_bytes` of dynamic shared memory.
/// @throws DeviceError
template <class... Parameters, class... Arguments>
void launch_with_shared(const Place& place, const char* operation, dim3 blocks, dim3 threads,
                        std::int64_t shared_bytes, void (*kernel)(Parameters...), Arguments&&... arguments) {
  const DeviceGuard guard(place.ordinal, place.device);
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = place.stream;
  // Its own status: cudaGetLastError would also tell what a call of the program has left behind.
  LOCKSTEP_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
                      place.device, operation);
}

/// Enqueues kernel(arguments...). @throws DeviceError
template <class... Parameters, class... Arguments>
void launch(const Place& place, const char* operation, dim3 blocks, dim3 threads,
            void (*kernel)(Parameters...), Arguments&&... arguments) {
  launch_with_shared(place, operation, blocks, threads, 0, kernel, std::forward<Arguments>(arguments)...);
}

/// The most bytes of dynamic shared memory that blocks of the kernel can have on this GPU, which allows them
/// as many. @throws DeviceError
template <class... Parameters>
int most_shared_bytes(const Place& place, const char* operation, void (*kernel)(Parameters...)) {
  const DeviceGuard guard(place.ordinal, place.device);
  int most = 0;
  cudaFuncAttributes attributes{};
  LOCKSTEP_CUDA_CHECK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, place.ordinal),
                      place.device, operation);
  LOCKSTEP_CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel), place.device, operation);
  most -= static_cast<int>(attributes.sharedSizeBytes);
  LOCKSTEP_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most),
                      place.device, operation);
  return most;
}

/// This thread's number in the grid, and the number of threads in it.
__device__ __forceinline__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t num_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

}  // namespace lockstep::cuda
