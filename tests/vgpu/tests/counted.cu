#include "counted.hpp"

static __global__ void gather_kernel(int* to, const int* from, int stride) {
  const int lane = static_cast<int>(threadIdx.x);
  to[lane] = from[lane * stride];
}

static __global__ void meet_and_add_kernel(int* sum) {
  __shared__ int shared[64];
  shared[threadIdx.x] = 1;
  __syncthreads();
  const int one = shared[blockDim.x - 1 - threadIdx.x];
  __syncthreads();
  atomicAdd(sum, one);
}

void gather(int* to, const int* from, int stride, cudaStream_t stream) {
  gather_kernel<<<1, 32, 0, stream>>>(to, from, stride);
}

void meet_and_add(int* sum, int threads, cudaStream_t stream) {
  meet_and_add_kernel<<<1, threads, 0, stream>>>(sum);
}
