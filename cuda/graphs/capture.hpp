#pragma once

#include <memory>
#include <span>
#include <string_view>

#include <cuda_runtime_api.h>

#include <lockstep/backend/communicator_backend.hpp>

#include "device/cuda_device.hpp"

namespace lockstep::cuda {

/// The capture that a stream is in. CUDA does not tell the number of a capture that has failed.
struct Capture {
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  bool has_failed = false;  // the stream stays in it until somebody ends it

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

/// Keeps `object` alive until the graph and its executables are destroyed and have run. A thread of CUDA
/// destroys it, so its destructor must not call CUDA.
void keep_with(const Capture& capture, std::shared_ptr<const void> object, const Device& device);

/// While it lives, the thread may make calls on other streams that would break a capture, such as
/// allocations.
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

/// Requires two ranks' streams to be in the same capture, or in none: one stream enqueues work for both.
/// @param device  of `call`; `first_device` of `first`.
/// @throws Unsupported  the streams of the two calls are in different captures.
void require_same_capture(std::string_view operation, const backend::RankCall& first,
                          const CudaDevice& first_device, const backend::RankCall& call,
                          const CudaDevice& device);

/// Refuses a wait for a stream that is being captured, before the wait breaks the capture.
/// @throws ContextError
void require_no_capture(std::string_view operation, cudaStream_t stream, const Device& device,
                        std::string_view advice);

}  // namespace lockstep::cuda
