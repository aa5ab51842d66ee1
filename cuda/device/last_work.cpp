#include "device/last_work.hpp"

#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "graphs/private_streams.hpp"
#include "libraries/cuda_error.hpp"
#include "native.hpp"

namespace lockstep::cuda {

LastWork::~LastWork() {
  if (!is_fork_of_user()) device_.destroy_event(end_);
}

void LastWork::follow(backend::StreamHandle stream) {
  if (is_unmarked_) return wait_for_device();
  const bool is_same = stream == stream_ && PrivateStreams::instance().is_lasting(native(stream));
  if (is_set_ && !is_same) device_.wait(stream, end_);
}

void LastWork::set(backend::StreamHandle stream) {
  const Device& device = device_.device();
  const DeviceGuard guard(device_.ordinal(), device);  // as record(), which would ask for a capture
  is_unmarked_ = true;
  LOCKSTEP_CUDA_CHECK(cudaEventRecord(native(end_), native(stream)), device, "Recording an event");
  is_unmarked_ = false;
  stream_ = stream;
  is_set_ = true;
}

void LastWork::finish() noexcept try {
  if (is_unmarked_) return wait_for_device();
  if (!is_set_) return;
  const DeviceGuard guard(device_.ordinal(), device_.device());
  const OutsideCaptures outside;
  if (cudaEventSynchronize(native(end_)) != cudaSuccess) cudaGetLastError();
} catch (const Error&) {  // the device is lost
}

void LastWork::wait_for_device() {
  const DeviceGuard guard(device_.ordinal(), device_.device());
  const OutsideCaptures outside;
  LOCKSTEP_CUDA_CHECK(cudaDeviceSynchronize(), device_.device(), "Waiting for work whose end is not marked");
  is_unmarked_ = false;
  is_set_ = false;
}

}  // namespace lockstep::cuda
