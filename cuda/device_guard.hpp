#pragma once

#include <lockstep/device.hpp>

namespace lockstep::cuda {

/// "This GPU is the calling thread's current one", for a scope. Every call into the CUDA backend that depends
/// on it has one, so that no call changes what the caller set.
///
/// Since CUDA 12 cudaSetDevice makes a context. Where the caller has none yet, on a GPU that it perhaps never
/// uses, the guard leaves it so.
class [[nodiscard]] DeviceGuard {
 public:
  /// @param ordinal  the CUDA runtime's number of the GPU. @throws DeviceError
  DeviceGuard(int ordinal, const Device& device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = -1;  // -1: it was current already
  bool had_context_ = true;
};

}  // namespace lockstep::cuda
