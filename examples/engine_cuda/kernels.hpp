// The engine's own kernels.
#pragma once

#include <cuda_runtime_api.h>

// gradients[i] = weights[i] - target
void enqueue_gradients(const float* weights, float target, float* gradients, int count, cudaStream_t stream);
// weights[i] -= rate * gradients[i]
void enqueue_update(float* weights, const float* gradients, float rate, int count, cudaStream_t stream);
