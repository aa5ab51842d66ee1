#include "kernels.hpp"

namespace {

constexpr int kThreads = 128;

__global__ void make_gradients(const float* weights, float target, float* gradients, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) gradients[i] = weights[i] - target;
}

__global__ void update(float* weights, const float* gradients, float rate, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) weights[i] -= rate * gradients[i];
}

int num_blocks(int count) { return (count + kThreads - 1) / kThreads; }

}  // namespace

void enqueue_gradients(const float* weights, float target, float* gradients, int count, cudaStream_t stream) {
  make_gradients<<<num_blocks(count), kThreads, 0, stream>>>(weights, target, gradients, count);
}

void enqueue_update(float* weights, const float* gradients, float rate, int count, cudaStream_t stream) {
  update<<<num_blocks(count), kThreads, 0, stream>>>(weights, gradients, rate, count);
}
