#include <cub/device/device_reduce.cuh>
#include <cub/device/device_segmented_reduce.cuh>

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "reference.hpp"

namespace lockstep::hardware {
namespace {

constexpr int kBlock = 256;

__global__ void spin_kernel(const volatile int* flag) {
  while (*flag == 0) __nanosleep(200);
}

__global__ void __launch_bounds__(kBlock) copy_kernel(uint4* to, const uint4* from, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlock + threadIdx.x;
  if (i < count) to[i] = from[i];
}

struct RowBegin {
  std::int64_t columns;
  __host__ __device__ std::int64_t operator()(std::int64_t row) const { return row * columns; }
};

}  // namespace

void spin(int* device_flag, cudaStream_t stream) { spin_kernel<<<1, 1, 0, stream>>>(device_flag); }

void reference_copy(void* to, const void* from, std::int64_t size_bytes, cudaStream_t stream) {
  const std::int64_t count = size_bytes / static_cast<std::int64_t>(sizeof(uint4));
  const auto blocks = static_cast<unsigned>((count + kBlock - 1) / kBlock);
  copy_kernel<<<blocks, kBlock, 0, stream>>>(static_cast<uint4*>(to), static_cast<const uint4*>(from), count);
}

void cub_sum(float* to, const float* from, std::int64_t size, void* scratch, cudaStream_t stream) {
  std::size_t bytes = kScratchBytes;
  cub::DeviceReduce::Sum(scratch, bytes, from, to, size, stream);
}

void cub_sum_rows(float* to, const float* from, std::int64_t rows, std::int64_t columns, void* scratch,
                  cudaStream_t stream) {
  std::size_t bytes = kScratchBytes;
  const auto begins =
      thrust::make_transform_iterator(thrust::counting_iterator<std::int64_t>(0), RowBegin{columns});
  cub::DeviceSegmentedReduce::Sum(scratch, bytes, from, to, rows, begins, begins + 1, stream);
}

}  // namespace lockstep::hardware
