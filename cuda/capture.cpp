#include "capture.hpp"

#include "cuda_error.hpp"
#include "device_guard.hpp"
#include "native.hpp"

namespace lockstep::cuda {

unsigned long long capture_of(const CudaDevice& device, backend::StreamHandle stream) {
  const DeviceGuard guard(device.ordinal(), device.device());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  LOCKSTEP_CUDA_CHECK(
      cudaStreamGetCaptureInfo(native(stream), &status, &id, nullptr, nullptr, nullptr, nullptr),
      device.device(), "Asking for a stream's capture");
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

void require_same_capture(std::string_view operation, const backend::RankCall& first,
                          const CudaDevice& first_device, const backend::RankCall& call,
                          const CudaDevice& device) {
  LOCKSTEP_EXPECTS(
      capture_of(device, call.stream) == capture_of(first_device, first.stream), Unsupported, operation,
      " on rank ", call.rank, " (", device.device(), "): its stream is not in the capture that rank ",
      first.rank, "'s (", first_device.device(),
      ") is in. What one call enqueues is captured into one graph: fork the streams from one that is "
      "being captured, and join them before its end.");
}

}  // namespace lockstep::cuda
