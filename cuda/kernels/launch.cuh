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

/// Enqueues kernel(arguments...). @throws DeviceError
template <class... Parameters, class... Arguments>
void launch(const Place& place, const char* operation, dim3 blocks, dim3 threads,
            void (*kernel)(Parameters...), Arguments&&... arguments) {
  const DeviceGuard guard(place.ordinal, place.device);
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = place.stream;
  // Its own status: cudaGetLastError would also tell what a call of the program has left behind.
  LOCKSTEP_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...),
                      place.device, operation);
}

/// This thread's number in the grid, and the number of threads in it.
__device__ __forceinline__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ std::int64_t num_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

}  // namespace lockstep::cuda
