// Primary contexts, and the driver's calls that concern them.
//
// The runtime makes a device's context when the device is selected, or at the first call that needs one. A
// thread's current device is that of its current context; without one, the device that it selected last.
#include "runtime/state.hpp"

namespace vgpu::rt {

namespace {

bool has_no_context(int device) {
  const Config::Mode mode = machine().config.mode(device);
  return mode == Config::Mode::prohibited || mode == Config::Mode::taken;
}

}  // namespace

cudaError_t use_context(int device, const char* why) {
  if (has_no_context(device)) return cudaErrorDevicesUnavailable;
  ThreadState& thread = thread_state();
  thread.context = device;
  Device& owner = *machine().devices[device];
  owner.context_used = true;
  if (owner.context) return cudaSuccess;
  owner.context = true;
  if (trace_on())
    log_op(format("thread %llu: %s makes the context of device %d",
                  static_cast<unsigned long long>(thread.number), why, device));
  return cudaSuccess;
}

namespace {

// CUresult
constexpr int kSuccess = 0, kInvalidValue = 1, kInvalidContext = 201, kInvalidDevice = 101;

Device* device_of(const void* context) {
  for (const auto& device : machine().devices)
    if (device.get() == context) return device.get();
  return nullptr;
}

int get_current(void** context) {
  if (const cudaError_t error = unusable(); error != cudaSuccess) return error;
  Lock lock(machine().mutex);
  if (!context) return kInvalidValue;
  const int device = thread_state().context;
  *context = device < 0 ? nullptr : machine().devices[device].get();
  return kSuccess;
}

int set_current(void* context) {
  if (const cudaError_t error = unusable(); error != cudaSuccess) return error;
  Lock lock(machine().mutex);
  ThreadState& thread = thread_state();
  if (!context) {
    thread.context = -1;
    thread.device = thread.selected;
    return kSuccess;
  }
  const Device* device = device_of(context);
  if (!device || !device->context) return kInvalidContext;
  thread.context = thread.device = device->index;
  return kSuccess;
}

int get_device(int* device) {
  if (const cudaError_t error = unusable(); error != cudaSuccess) return error;
  Lock lock(machine().mutex);
  if (!device) return kInvalidValue;
  if (thread_state().context < 0) return kInvalidContext;
  *device = thread_state().context;
  return kSuccess;
}

int primary_state(int device, unsigned* flags, int* active) {
  if (const cudaError_t error = unusable(); error != cudaSuccess) return error;
  Lock lock(machine().mutex);
  if (!flags || !active) return kInvalidValue;
  if (!valid_device(device)) return kInvalidDevice;
  *flags = machine().devices[device]->flags;
  *active = machine().devices[device]->context;
  return kSuccess;
}

int primary_retain(void** context, int device) {
  if (const cudaError_t error = unusable(); error != cudaSuccess) return error;
  if (const cudaError_t error = injected("cuDevicePrimaryCtxRetain"); error != cudaSuccess) return error;
  Lock lock(machine().mutex);
  if (!context) return kInvalidValue;
  if (!valid_device(device)) return kInvalidDevice;
  if (has_no_context(device)) return cudaErrorDevicesUnavailable;
  Device& owner = *machine().devices[device];
  owner.context = true;
  ++owner.context_retained;
  *context = &owner;
  if (trace_on()) log_op(format("cuDevicePrimaryCtxRetain(%d)", device));
  return kSuccess;
}

// The runtime keeps the context that it uses, so it stays.
int primary_release(int device) {
  if (const cudaError_t error = unusable(); error != cudaSuccess) return error;
  Lock lock(machine().mutex);
  if (!valid_device(device)) return kInvalidDevice;
  Device& owner = *machine().devices[device];
  if (owner.context_retained == 0) return kInvalidContext;
  if (--owner.context_retained == 0 && !owner.context_used) owner.context = false;
  return kSuccess;
}

}  // namespace

void* driver_function(const std::string& name) {
  if (name == "cuCtxGetCurrent") return reinterpret_cast<void*>(get_current);
  if (name == "cuCtxSetCurrent") return reinterpret_cast<void*>(set_current);
  if (name == "cuCtxGetDevice") return reinterpret_cast<void*>(get_device);
  if (name == "cuDevicePrimaryCtxGetState") return reinterpret_cast<void*>(primary_state);
  if (name == "cuDevicePrimaryCtxRetain") return reinterpret_cast<void*>(primary_retain);
  if (name == "cuDevicePrimaryCtxRelease") return reinterpret_cast<void*>(primary_release);
  return nullptr;
}

}  // namespace vgpu::rt
