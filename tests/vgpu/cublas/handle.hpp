// A handle, and how a call of cuBLAS becomes an operation of its stream.
#pragma once

#include <functional>
#include <string>

#include <cublas_v2.h>

#include "runtime/runtime.hpp"

struct cublasContext {
  static constexpr std::uint64_t alive = 0x76677075424C4153ull;
  std::uint64_t magic = alive;
  int device = 0;
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace vgpu::blas {

using rt::RunContext;
using rt::Runtime;

Runtime& runtime();
std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
// Says why, and returns the status.
cublasStatus_t refuse(const char* name, cublasStatus_t status, const std::string& why);
cublasStatus_t check(const char* name, cublasHandle_t handle);
// Puts `body` on the handle's stream, and waits for it where `wait` says so.
cublasStatus_t submit(const char* name, cublasHandle_t handle, std::string text, double operations,
                      std::function<void(RunContext&)> body, bool wait = false);

}  // namespace vgpu::blas
