#pragma once

#include "runtime/state.hpp"

namespace vgpu::rt {

// Checks a launch and packs its parameters.
cudaError_t make_kernel(KernelWork& work, KernelHandle& kernel, dim3 grid, dim3 block, void** arguments,
                        std::size_t shared, bool cooperative);

// Bytes of a multiprocessor; a block may have 1 KiB less.
std::size_t shared_memory(int device);

}  // namespace vgpu::rt
