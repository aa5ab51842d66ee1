#include "device/last_work.hpp"

#include "device/device_guard.hpp"
#include "graphs/private_streams.hpp"
#include "libraries/cuda_error.hpp"
#include "native.hpp"

namespace lockstep::cuda {

LastWork::~LastWork() {
  if (!is_fork_of_user()) device_.destroy_event(end_);
}

void LastWork::follow(backend::StreamHandle stream) {
  const bool is_same = stream == stream_ && PrivateStreams::instance().is_lasting(native(stream));
  if (is_set_ && !is_same) device_.wait(stream, end_);
}

void LastWork::set(backend::StreamHandle stream) {
  const Device& device = device_.device();
  const DeviceGuard guard(device_.ordinal(), device);  // as record(), which would ask for a capture
  LOCKSTEP_CUDA_CHECK(cudaEventRecord(native(end_), native(stream)), device, "Recording an event");
  stream_ = stream;
  is_set_ = true;
}

}  // namespace lockstep::cuda
