// Kernels of one block, whose work is known. Defined in counted.cu.
#pragma once

#include <cuda_runtime_api.h>

// to[lane] = from[lane * stride] for 32 lanes.
void gather(int* to, const int* from, int stride, cudaStream_t stream);
// `threads` of them meet twice, and each adds 1 to *sum.
void meet_and_add(int* sum, int threads, cudaStream_t stream);
