#include "device/device_guard.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <string_view>

#include "detail/expects.hpp"
#include "detail/immortal.hpp"
#include "detail/process.hpp"
#include "device/gpus.hpp"
#include "libraries/cuda_error.hpp"

namespace lockstep::cuda {
namespace {

/// The driver's functions, which the runtime can look up. They are declared here as the driver declares them,
/// so that nothing links with the driver. Their codes are the runtime's.
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
  int (*release_context)(int) = nullptr;

 private:
  explicit Driver(const Device& device) {
    find(get_context, "cuCtxGetCurrent", device);
    find(set_context, "cuCtxSetCurrent", device);
    find(retain_context, "cuDevicePrimaryCtxRetain", device);
    find(release_context, "cuDevicePrimaryCtxRelease", device);
  }
  template <class Function>
  static void find(Function*& function, const char* symbol, const Device& device) {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult found{};
    LOCKSTEP_CUDA_CHECK(cudaGetDriverEntryPointByVersion(symbol, &pointer, 12000, cudaEnableDefault, &found),
                        device, "Asking for the driver's functions");
    if (found != cudaDriverEntryPointSuccess)
      throw_cuda_error(cudaErrorSymbolNotFound, symbol, {__FILE__, __LINE__, __func__}, device,
                       "Asking for the driver's functions");
    function = reinterpret_cast<Function*>(pointer);
  }
};

std::atomic<std::uint64_t> user{0};  // the number of the process that uses CUDA; 0: none has yet

/// Checks a call of the driver. @param hint  replaces the general hint where it is not empty.
void check(int code, const char* call, const Device& device, std::string_view hint = {}) {
  if (code != cudaSuccess)
    throw_cuda_error(static_cast<cudaError_t>(code), call, {__FILE__, __LINE__, __func__}, device,
                     "Making the device current", hint);
}
void log(int code, const char* call) noexcept {
  if (code != cudaSuccess) log_cuda_error(static_cast<cudaError_t>(code), call);
}

struct Contexts {
  std::mutex mutex;  // guards of_gpus
  std::map<int, void*> of_gpus;
};

/// The GPU's primary context, retained once for the process's life.
void* context_of(int ordinal, const Device& device) {
  auto& [mutex, contexts] = lockstep::detail::immortal<Contexts>();
  const std::lock_guard lock(mutex);
  if (const auto found = contexts.find(ordinal); found != contexts.end()) return found->second;
  void* context = nullptr;
  const int code = Driver::of(device).retain_context(&context, ordinal);
  const std::string_view mode = code == cudaErrorDevicesUnavailable ? mode_that_keeps_out(ordinal) : "";
  check(code, "cuDevicePrimaryCtxRetain", device,
        mode.empty() ? "" : lockstep::detail::concat("Its ", mode, ". Use another device."));
  return contexts[ordinal] = context;
}

}  // namespace

void use_in_this_process(const Device& device) {
  std::uint64_t before = 0;
  const std::uint64_t now = lockstep::detail::Process::number();
  if (!user.compare_exchange_strong(before, now, std::memory_order_relaxed))
    LOCKSTEP_EXPECTS(before == now, ContextError, "The use of ", device,
                     ": this process is a fork of one that has used GPUs, in which CUDA does not work. Fork "
                     "before the first use of a GPU, or let the fork call exec.");
}

bool is_fork_of_user() noexcept {
  const std::uint64_t process = user.load(std::memory_order_relaxed);
  return process != 0 && process != lockstep::detail::Process::number();
}

bool can_make_context(int ordinal, const Device& device) {
  use_in_this_process(device);
  const Driver& driver = Driver::of(device);
  void* context = nullptr;
  const auto code = static_cast<cudaError_t>(driver.retain_context(&context, ordinal));
  if (code == cudaSuccess) log(driver.release_context(ordinal), "cuDevicePrimaryCtxRelease");
  return code != cudaErrorDevicesUnavailable;  // opening the device reports other errors
}

void make_current(int ordinal, const Device& device) {
  use_in_this_process(device);
  check(Driver::of(device).set_context(context_of(ordinal, device)), "cuCtxSetCurrent", device);
}

DeviceGuard::DeviceGuard(int ordinal, const Device& device) {
  use_in_this_process(device);
  const Driver& driver = Driver::of(device);
  void* const context = context_of(ordinal, device);
  check(driver.get_context(&previous_), "cuCtxGetCurrent", device);
  if (previous_ == context) return;
  check(driver.set_context(context), "cuCtxSetCurrent", device);
  changed_ = true;
}

DeviceGuard::~DeviceGuard() {
  if (!changed_) return;
  log(Driver::of({}).set_context(previous_), "cuCtxSetCurrent");
}

CallerDevice::CallerDevice() noexcept {
  if (cudaGetDevice(&ordinal_) != cudaSuccess) cudaGetLastError();
}

CallerDevice::~CallerDevice() {
  int now = -1;
  if (ordinal_ < 0 || (cudaGetDevice(&now) == cudaSuccess && now == ordinal_)) return;
  // A second try, before the caller is left on another device.
  if (cudaSetDevice(ordinal_) != cudaSuccess) LOCKSTEP_CUDA_LOG(cudaSetDevice(ordinal_));
}

}  // namespace lockstep::cuda
