#pragma once

#include <string_view>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <lockstep/device.hpp>
#include <lockstep/error.hpp>

namespace lockstep::cuda {

/// Whether the device's context is lost: every later call fails with the same error.
bool is_fatal(cudaError_t code) noexcept;

/// Throws DeviceError: what was attempted, on which device, the call, the code and its meaning. Clears the
/// runtime's pending error.
/// @param hint  what to do; empty: a general hint, which depends on `is_fatal`.
[[noreturn]] void throw_cuda_error(cudaError_t code, const char* call, const SourceLocation& location,
                                   const Device& device, std::string_view operation,
                                   std::string_view hint = {});
[[noreturn]] void throw_cublas_error(cublasStatus_t code, const char* call, const SourceLocation& location,
                                     const Device& device, std::string_view operation);

/// For destructors and process exit, which must not throw. Logs what failed, unless the process is ending or
/// the device's loss was reported before.
void log_cuda_error(cudaError_t code, const char* call) noexcept;

}  // namespace lockstep::cuda

/// Throws DeviceError unless the CUDA runtime call succeeds.
/// @param device     a lockstep::Device.
/// @param operation  what was attempted, in the caller's words.
#define LOCKSTEP_CUDA_CHECK(call, device, operation)                                                     \
  do {                                                                                                   \
    if (const cudaError_t lockstep_code = (call); lockstep_code != cudaSuccess) [[unlikely]]             \
      ::lockstep::cuda::throw_cuda_error(lockstep_code, #call, {__FILE__, __LINE__, __func__}, (device), \
                                         (operation));                                                   \
  } while (false)

#define LOCKSTEP_CUBLAS_CHECK(call, device, operation)                                                     \
  do {                                                                                                     \
    if (const cublasStatus_t lockstep_code = (call); lockstep_code != CUBLAS_STATUS_SUCCESS) [[unlikely]]  \
      ::lockstep::cuda::throw_cublas_error(lockstep_code, #call, {__FILE__, __LINE__, __func__}, (device), \
                                           (operation));                                                   \
  } while (false)

/// For calls that must not throw.
#define LOCKSTEP_CUDA_LOG(call)                                                 \
  do {                                                                          \
    if (const cudaError_t lockstep_code = (call); lockstep_code != cudaSuccess) \
      ::lockstep::cuda::log_cuda_error(lockstep_code, #call);                   \
  } while (false)
