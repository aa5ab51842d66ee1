#include "graphs/capture.hpp"

#include <utility>

#include "detail/expects.hpp"
#include "device/device_guard.hpp"
#include "graphs/private_streams.hpp"
#include "libraries/cuda_error.hpp"
#include "native.hpp"

namespace lockstep::cuda {

Capture capture_of(cudaStream_t stream, const Device& device) {
  PrivateStreams& streams = PrivateStreams::instance();
  const std::uint64_t known = streams.last_capture(stream);
  if (known == 0) return {};
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Capture capture;
  LOCKSTEP_CUDA_CHECK(
      cudaStreamGetCaptureInfo(stream, &status, &capture.id, &capture.graph, nullptr, nullptr, nullptr),
      device, "Asking for a stream's capture");
  if (status == cudaStreamCaptureStatusNone) streams.note_none(stream, known);
  if (status != cudaStreamCaptureStatusActive) capture = {};
  capture.has_failed = status == cudaStreamCaptureStatusInvalidated;
  return capture;
}

Capture capture_of(const CudaDevice& device, backend::StreamHandle stream) {
  const DeviceGuard guard(device.ordinal(), device.device());
  return capture_of(native(stream), device.device());
}

bool is_in_capture(cudaStream_t stream) noexcept {
  if (PrivateStreams::instance().last_capture(stream) == 0) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) == cudaSuccess) return status != cudaStreamCaptureStatusNone;
  cudaGetLastError();
  return false;
}

void keep_with(const Capture& capture, std::shared_ptr<const void> object, const Device& device) {
  constexpr const char* kOperation = "Keeping an object with a graph";
  using Owned = std::shared_ptr<const void>;
  auto owned = std::make_unique<Owned>(std::move(object));
  cudaUserObject_t reference = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaUserObjectCreate(
                          &reference, owned.get(), [](void* data) { delete static_cast<Owned*>(data); }, 1,
                          cudaUserObjectNoDestructorSync),
                      device, kOperation);
  static_cast<void>(owned.release());
  const cudaError_t code = cudaGraphRetainUserObject(capture.graph, reference, 1, cudaGraphUserObjectMove);
  if (code == cudaSuccess) return;
  LOCKSTEP_CUDA_LOG(cudaUserObjectRelease(reference, 1));
  throw_cuda_error(code, "cudaGraphRetainUserObject", {__FILE__, __LINE__, __func__}, device, kOperation);
}

bool OutsideCaptures::exchange() noexcept {
  if (cudaThreadExchangeStreamCaptureMode(&mode_) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

void require_same_capture(std::string_view operation, const backend::RankCall& first,
                          const CudaDevice& first_device, const backend::RankCall& call,
                          const CudaDevice& device) {
  LOCKSTEP_EXPECTS(capture_of(device, call.stream) == capture_of(first_device, first.stream), Unsupported,
                   operation, " on rank ", call.rank, " (", device.device(),
                   "): its stream is not in the capture that rank ", first.rank, "'s (",
                   first_device.device(),
                   ") is in. What virtual devices of one GPU enqueue together is captured into one graph: "
                   "fork the streams "
                   "from one that is being captured, and join them before its end.");
}

void require_no_capture(std::string_view operation, cudaStream_t stream, const Device& device,
                        std::string_view advice) {
  LOCKSTEP_EXPECTS(!is_in_capture(stream), ContextError, operation, " on ", device,
                   ": its stream is being captured, and what it captures runs when the graph is launched. ",
                   advice);
}

}  // namespace lockstep::cuda
