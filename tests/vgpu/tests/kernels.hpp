// Small kernels on arrays of `count` integers.
#pragma once

static __global__ void fill(int* data, int count, int value) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) data[index] = value;
}
static __global__ void add(int* data, int count, int value) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) data[index] += value;
}
static __global__ void copy(int* to, const int* from, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) to[index] = from[index];
}

constexpr int count = 1000;
constexpr std::size_t bytes = count * sizeof(int);

static inline void fill_async(int* data, int value, cudaStream_t stream) {
  fill<<<4, 256, 0, stream>>>(data, count, value);
}
