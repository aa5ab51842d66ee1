#include "device_guard.hpp"

#include <map>
#include <mutex>

#include "cuda_error.hpp"

namespace lockstep::cuda {
namespace {

/// The driver's own functions, which the runtime can name. Declared here as the driver declares them, so that
/// nothing has to link with it. Its codes are the runtime's.
class Driver {
 public:
  /// @throws DeviceError  the driver does not have them.
  static const Driver& of(const Device& device) {
    static const Driver driver(device);
    return driver;
  }
  int (*get_context)(void**) = nullptr;
  int (*set_context)(void*) = nullptr;
  int (*retain_context)(void**, int) = nullptr;

 private:
  explicit Driver(const Device& device) {
    find(get_context, "cuCtxGetCurrent", device);
    find(set_context, "cuCtxSetCurrent", device);
    find(retain_context, "cuDevicePrimaryCtxRetain", device);
  }
  template <class Function>
  static void find(Function*& function, const char* symbol, const Device& device) {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult found{};
    LOCKSTEP_CUDA_CHECK(cudaGetDriverEntryPointByVersion(symbol, &pointer, 12000, cudaEnableDefault, &found),
                        device, "Asking for the driver's functions");
    LOCKSTEP_CUDA_CHECK(found == cudaDriverEntryPointSuccess ? cudaSuccess : cudaErrorSymbolNotFound, device,
                        "Asking for the driver's functions");
    function = reinterpret_cast<Function*>(pointer);
  }
};

/// The GPU's primary context, retained once for the process's life.
void* context_of(int ordinal, const Device& device) {
  static std::mutex& mutex = *new std::mutex();  // guards contexts
  static std::map<int, void*>& contexts = *new std::map<int, void*>();
  const std::lock_guard lock(mutex);
  if (const auto found = contexts.find(ordinal); found != contexts.end()) return found->second;
  void* context = nullptr;
  LOCKSTEP_CUDA_CHECK(static_cast<cudaError_t>(Driver::of(device).retain_context(&context, ordinal)), device,
                      "Making the device current");
  return contexts[ordinal] = context;
}

}  // namespace

DeviceGuard::DeviceGuard(int ordinal, const Device& device) {
  constexpr const char* kOperation = "Making the device current";
  const Driver& driver = Driver::of(device);
  void* const context = context_of(ordinal, device);
  LOCKSTEP_CUDA_CHECK(static_cast<cudaError_t>(driver.get_context(&previous_)), device, kOperation);
  if (previous_ == context) return;
  LOCKSTEP_CUDA_CHECK(static_cast<cudaError_t>(driver.set_context(context)), device, kOperation);
  changed_ = true;
}

DeviceGuard::~DeviceGuard() {
  if (!changed_) return;
  const Driver& driver = Driver::of({});
  LOCKSTEP_CUDA_LOG(static_cast<cudaError_t>(driver.set_context(previous_)));
}

CallerDevice::CallerDevice() noexcept {
  if (cudaGetDevice(&ordinal_) != cudaSuccess) cudaGetLastError();
}

CallerDevice::~CallerDevice() {
  int now = -1;
  if (ordinal_ < 0 || (cudaGetDevice(&now) == cudaSuccess && now == ordinal_)) return;
  // Once more before the caller is left on another device than before.
  if (cudaSetDevice(ordinal_) != cudaSuccess) LOCKSTEP_CUDA_LOG(cudaSetDevice(ordinal_));
}

}  // namespace lockstep::cuda
