#pragma once

#include <cuda_runtime_api.h>

#include <lockstep/device.hpp>
#include <lockstep/error.hpp>

#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {

/// What a call of the runtime has returned, and which it was: for functions that make several.
struct [[nodiscard]] CallResult {
  cudaError_t code = cudaSuccess;
  const char* call = "";
  SourceLocation location{};

  bool failed() const noexcept { return code != cudaSuccess; }
  /// @throws DeviceError  it failed. @param operation  what was attempted, in the caller's words.
  void require(const Device& device, std::string_view operation) const {
    if (failed()) [[unlikely]]
      throw_cuda_error(code, call, location, device, operation);
  }
  /// Where nobody hears an exception.
  void log() const noexcept {
    if (failed()) [[unlikely]]
      log_cuda_error(code, call);
  }
};

}  // namespace lockstep::cuda

/// The CallResult of a CUDA runtime call.
#define LOCKSTEP_CUDA_CALL(call)                                               \
  ::lockstep::cuda::CallResult {                                               \
    (call), #call, ::lockstep::SourceLocation { __FILE__, __LINE__, __func__ } \
  }
