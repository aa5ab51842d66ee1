#pragma once

#include <lockstep/device.hpp>

namespace lockstep::cuda {

/// Notes that this process uses CUDA.
/// @throws ContextError  the process is a fork of one that has used it, in which CUDA does not work.
void use_in_this_process(const Device& device);

/// Whether the process is such a fork. It releases nothing: everything belongs to the other process.
bool is_fork_of_user() noexcept;

/// Whether this process can make a context on a GPU in an exclusive compute mode. Leaves no context behind.
/// @throws DeviceError
bool can_make_context(int ordinal, const Device& device);

/// Makes a GPU the calling thread's current one from now on: for threads of the library's own.
/// @throws as DeviceGuard
void make_current(int ordinal, const Device& device);

/// "This GPU is the calling thread's current one", for a scope. Every call into the CUDA backend that depends
/// on it has one, so that no call changes what the caller set.
///
/// The guard makes the GPU's primary context current and then the caller's again, which may be none. It does
/// not select a device: cudaSetDevice, to go back to the caller's, would make a context there, on a GPU that
/// the caller perhaps never uses.
class [[nodiscard]] DeviceGuard {
 public:
  /// @param ordinal  the CUDA runtime's number of the GPU. @throws DeviceError
  /// @throws ContextError  see use_in_this_process.
  DeviceGuard(int ordinal, const Device& device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  void* previous_ = nullptr;  // the caller's context
  bool changed_ = false;
};

/// For calls of NCCL, which selects devices itself: after the scope the caller's device is current again,
/// also after an error.
class [[nodiscard]] CallerDevice {
 public:
  CallerDevice() noexcept;
  ~CallerDevice();
  CallerDevice(const CallerDevice&) = delete;
  CallerDevice& operator=(const CallerDevice&) = delete;

 private:
  int ordinal_ = -1;
};

}  // namespace lockstep::cuda
