#include "libraries/cuda_error.hpp"

#include <cstdio>
#include <string>

#include "detail/expects.hpp"
#include "libraries/cublas_library.hpp"

namespace lockstep::cuda {

bool is_fatal(cudaError_t code) noexcept {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDeviceUninitialized: return true;
    default: return false;
  }
}

void throw_cuda_error(cudaError_t code, const char* call, const SourceLocation& location,
                      const Device& device, std::string_view operation, std::string_view hint) {
  cudaGetLastError();  // otherwise a later call would report it again
  const bool fatal = is_fatal(code);
  ErrorContext context;
  context.operation = operation;
  context.device = device.to_string();
  context.code = code;
  context.location = location;
  context.hint = !hint.empty() ? hint
                 : fatal       ? "The device cannot be used again in this process."
                               : "The operation did not take place; later ones may.";
  const std::string message = lockstep::detail::concat(operation, " on ", device, ": ", call, " failed with ",
                                                       cudaGetErrorName(code), " (", static_cast<int>(code),
                                                       "), ", cudaGetErrorString(code), ". ", context.hint);
  throw DeviceError(message, lockstep::detail::complete(std::move(context), message), fatal);
}

void throw_cublas_error(cublasStatus_t code, const char* call, const SourceLocation& location,
                        const Device& device, std::string_view operation) {
  ErrorContext context;
  context.operation = operation;
  context.device = device.to_string();
  context.code = code;
  context.location = location;
  context.hint = "The operation did not take place; later ones may.";
  const std::string message = lockstep::detail::concat(
      operation, " on ", device, ": ", call, " failed with ", cublasGetStatusName(code), " (",
      static_cast<int>(code), "), ", cublasGetStatusString(code), ". ", context.hint);
  throw DeviceError(message, lockstep::detail::complete(std::move(context), message), false);
}

void log_cuda_error(cudaError_t code, const char* call) noexcept {
  cudaGetLastError();
  if (code == cudaErrorCudartUnloading || is_fatal(code)) return;
  std::fprintf(stderr, "lockstep: %s failed with %s while releasing it\n", call, cudaGetErrorName(code));
}

}  // namespace lockstep::cuda
