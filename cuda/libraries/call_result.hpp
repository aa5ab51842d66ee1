#pragma once

#include <cuda_runtime_api.h>

#include <lockstep/device.hpp>
#include <lockstep/error.hpp>

#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {

/// The result of a runtime call, with the call's text: for functions that make several calls.
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
  /// For callers that must not throw.
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
