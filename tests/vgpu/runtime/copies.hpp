// Building and submitting copies and memsets; shared by the memory API and graphs.
#pragma once

#include "runtime/state.hpp"

namespace vgpu::rt {

struct Shape {
  std::size_t width = 0, height = 1, depth = 1;  // bytes, rows, slices
};

// Checks both ends and the direction.
cudaError_t make_copy(CopyWork& copy, void* to, std::size_t to_pitch, std::size_t to_slice, const void* from,
                      std::size_t from_pitch, std::size_t from_slice, Shape shape, cudaMemcpyKind kind,
                      const char* api);
cudaError_t make_copy(CopyWork& copy, const cudaMemcpy3DParms& parameters, const char* api);
cudaError_t make_set(SetWork& set, void* to, std::size_t pitch, std::size_t slice, unsigned value,
                     unsigned element, Shape shape, const char* api);
// Asynchronous copy semantics: pageable sources are read now, pageable targets are waited for.
cudaError_t submit_copy(Lock& lock, StreamObject& stream, CopyWork copy, const char* api);
cudaError_t copy_now(Lock& lock, StreamObject& stream, CopyWork copy, const char* api);

}  // namespace vgpu::rt
