#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <cuda_runtime_api.h>

#include <lockstep/backend/communicator_backend.hpp>

#include "device/cuda_device.hpp"

namespace lockstep::cuda {

/// What a stream is being captured into. CUDA does not say which capture it was that has failed.
struct Capture {
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  bool has_failed = false;  // the stream is in it until somebody ends it

  explicit operator bool() const { return id != 0; }
  bool operator==(const Capture& other) const { return id == other.id && has_failed == other.has_failed; }
};

/// The capture that a stream is in, or none, or one that has failed. Waits for nothing and breaks no capture.
/// @param device  whose context is current. @throws DeviceError
Capture capture_of(cudaStream_t stream, const Device& device);
/// The same, whatever context is current.
Capture capture_of(const CudaDevice& device, backend::StreamHandle stream);

/// Whether a stream is in a capture, which may have failed.
bool is_in_capture(cudaStream_t stream) noexcept;

/// Keeps `object` until the graph, and all that was made of it, is destroyed and has run. It dies in a thread
/// of CUDA's, and must not call CUDA.
void keep_with(const Capture& capture, std::shared_ptr<const void> object, const Device& device);

/// While it lives the thread may do what would break a capture of its own, as allocate, on other streams.
class [[nodiscard]] OutsideCaptures {
 public:
  OutsideCaptures() noexcept : is_outside_(exchange()) {}
  ~OutsideCaptures() {
    if (is_outside_) exchange();
  }
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  bool exchange() noexcept;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  const bool is_outside_;
};

/// What one stream enqueues for others must be captured into one graph with them, or not at all.
/// @param device  of `call`; `first_device` of `first`.
/// @throws Unsupported  the streams of the two calls are in different captures.
void require_same_capture(std::string_view operation, const backend::RankCall& first,
                          const CudaDevice& first_device, const backend::RankCall& call,
                          const CudaDevice& device);

/// Refuses what waits for a stream while it is captured, before it breaks the capture.
/// @throws ContextError
void require_no_capture(std::string_view operation, cudaStream_t stream, const Device& device,
                        std::string_view advice);

}  // namespace lockstep::cuda
