#pragma once

#include <cuda_runtime_api.h>

#include <lockstep/backend/handles.hpp>

namespace lockstep::cuda {

// The backend's handles are CUDA's own, so that engines can pass theirs.
inline cudaStream_t native(backend::StreamHandle stream) {
  return reinterpret_cast<cudaStream_t>(static_cast<std::uintptr_t>(stream));
}
inline cudaEvent_t native(backend::EventHandle event) {
  return reinterpret_cast<cudaEvent_t>(static_cast<std::uintptr_t>(event));
}
inline backend::StreamHandle handle_of(cudaStream_t stream) {
  return backend::StreamHandle{reinterpret_cast<std::uintptr_t>(stream)};
}
inline backend::EventHandle handle_of(cudaEvent_t event) {
  return backend::EventHandle{reinterpret_cast<std::uintptr_t>(event)};
}

}  // namespace lockstep::cuda
