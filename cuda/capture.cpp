#include "capture.hpp"

#include "cuda_error.hpp"
#include "native.hpp"

namespace lockstep::cuda {

unsigned long long capture_of(backend::StreamHandle stream, const Device& device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  LOCKSTEP_CUDA_CHECK(
      cudaStreamGetCaptureInfo(native(stream), &status, &id, nullptr, nullptr, nullptr, nullptr), device,
      "Asking for a stream's capture");
  return status == cudaStreamCaptureStatusNone ? 0 : id;
}

void require_same_capture(std::string_view operation, const backend::RankCall& first,
                          const Device& first_device, const backend::RankCall& call, const Device& device) {
  LOCKSTEP_EXPECTS(
      capture_of(call.stream, device) == capture_of(first.stream, first_device), Unsupported, operation,
      " on rank ", call.rank, " (", device, "): its stream is not in the capture that rank ", first.rank,
      "'s (", first_device,
      ") is in. What one call enqueues is captured into one graph: fork the streams from one that is "
      "being captured, and join them before its end.");
}

}  // namespace lockstep::cuda
