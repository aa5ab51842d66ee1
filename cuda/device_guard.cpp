#include "device_guard.hpp"

#include "cuda_error.hpp"

namespace lockstep::cuda {
namespace {

// The driver's own functions, where the runtime can name them. Declared here as the driver declares them, so
// that nothing has to link with it.
using GetContext = int (*)(void**);
using SetContext = int (*)(void*);

template <class Function>
Function driver_function(const char* symbol) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  if (cudaGetDriverEntryPointByVersion(symbol, &function, 12000, cudaEnableDefault, &found) != cudaSuccess) {
    cudaGetLastError();
    return nullptr;
  }
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

bool has_context() {
  static const auto get_context = driver_function<GetContext>("cuCtxGetCurrent");
  void* context = nullptr;
  return get_context == nullptr || get_context(&context) != 0 || context != nullptr;
}

void clear_context() {
  static const auto set_context = driver_function<SetContext>("cuCtxSetCurrent");
  if (set_context != nullptr) set_context(nullptr);
}

}  // namespace

DeviceGuard::DeviceGuard(int ordinal, const Device& device) {
  int current = 0;
  LOCKSTEP_CUDA_CHECK(cudaGetDevice(&current), device, "Making the device current");
  if (current == ordinal) return;
  had_context_ = has_context();
  LOCKSTEP_CUDA_CHECK(cudaSetDevice(ordinal), device, "Making the device current");
  previous_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (previous_ < 0) return;
  if (!had_context_) {
    clear_context();
    int current = -1;
    if (cudaGetDevice(&current) == cudaSuccess && current == previous_) return;
  }
  // Once more before the caller is left on another device than before.
  if (cudaSetDevice(previous_) != cudaSuccess) LOCKSTEP_CUDA_LOG(cudaSetDevice(previous_));
}

}  // namespace lockstep::cuda
