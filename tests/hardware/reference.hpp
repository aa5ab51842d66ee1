#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

/// Kernels to compare with, and one that does not end by itself.
namespace lockstep::hardware {

/// One thread, until `*device_flag`, in page-locked memory, is not 0.
void spin(int* device_flag, cudaStream_t stream);

/// One vector of 16 bytes for each thread. @pre both are aligned to that.
void reference_copy(void* to, const void* from, std::int64_t size_bytes, cudaStream_t stream);

/// CUB's sum of all, and of each row. @param scratch  of at least kScratchBytes.
inline constexpr std::size_t kScratchBytes = std::size_t{64} << 20;
void cub_sum(float* to, const float* from, std::int64_t size, void* scratch, cudaStream_t stream);
void cub_sum_rows(float* to, const float* from, std::int64_t rows, std::int64_t columns, void* scratch,
                  cudaStream_t stream);

}  // namespace lockstep::hardware
