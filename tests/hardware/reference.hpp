#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

/// Kernels to compare with, and a kernel that does not end by itself.
namespace lockstep::hardware {

/// Runs one thread until `*device_flag`, in page-locked memory, is not 0.
void spin(int* device_flag, cudaStream_t stream);

/// Copies one vector of 16 bytes in each thread. @pre both addresses are multiples of 16 bytes.
void reference_copy(void* to, const void* from, std::int64_t size_bytes, cudaStream_t stream);

/// CUB's sum of all elements, and of each row. @param scratch  of at least kScratchBytes.
inline constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
void cub_sum(float* to, const float* from, std::int64_t size, void* scratch, cudaStream_t stream);
void cub_sum_rows(float* to, const float* from, std::int64_t rows, std::int64_t columns, void* scratch,
                  cudaStream_t stream);

}  // namespace lockstep::hardware
