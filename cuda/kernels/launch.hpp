#pragma once

#include <cuda_runtime_api.h>

#include <lockstep/device.hpp>

namespace lockstep::cuda {

class CudaMemory;

/// Where a kernel runs.
struct Place {
  int ordinal;  ///< The CUDA runtime's number of the GPU.
  const Device& device;
  cudaStream_t stream;
  CudaMemory& memory;  ///< The GPU's pool.
};

/// The most bytes that a block stages in shared memory at once.
inline constexpr int kStagedBytes = 16 << 10;

}  // namespace lockstep::cuda
