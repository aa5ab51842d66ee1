#include "device/cuda_device.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <lockstep/version.hpp>

#include "detail/expects.hpp"
#include "detail/immortal.hpp"
#include "device/device_guard.hpp"
#include "device/peer_access.hpp"
#include "graphs/capture.hpp"
#include "graphs/captured_events.hpp"
#include "graphs/private_streams.hpp"
#include "libraries/call_result.hpp"
#include "libraries/cuda_error.hpp"
#include "native.hpp"
#if LOCKSTEP_HAS_NCCL
#include "communicators/left_communicators.hpp"
#endif

namespace lockstep::cuda {
namespace {

/// All CudaDevices of the process.
struct Registry {
  std::mutex mutex;  // guards devices
  std::vector<CudaDevice*> devices;

  static Registry& instance() { return lockstep::detail::immortal<Registry>(); }
};

/// Whether a stream is as good as new: it is in no capture and has nothing to do.
bool is_idle(cudaStream_t stream) {
  const OutsideCaptures outside;
  const bool idle = !is_in_capture(stream) && cudaStreamQuery(stream) == cudaSuccess;
  if (!idle) cudaGetLastError();
  return idle;
}

/// The answer of a query. @throws DeviceError
bool is_done(const CallResult& query, const Device& device, const char* operation) {
  if (query.code == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  query.require(device, operation);
  return true;
}

cudaMemoryType type_of(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) == cudaSuccess) return attributes.type;
  cudaGetLastError();
  return cudaMemoryTypeUnregistered;
}

/// Whether `data` is ordinary host memory, which CUDA reads during the call, not when the stream gets there.
bool is_pageable(const void* data) { return type_of(data) == cudaMemoryTypeUnregistered; }

}  // namespace

CudaDevice::CudaDevice(int index, int ordinal, std::shared_ptr<CudaMemory> memory)
    : ordinal_(ordinal),
      device_(DeviceKind::gpu, index),
      memory_(std::move(memory)),
      kernels_(ordinal, device_, *memory_),
      graphs_(ordinal, device_, *memory_) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.devices.push_back(this);
}

CudaDevice::~CudaDevice() {
  if (is_fork_of_user()) return;
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.devices, this);
  close();
}

void CudaDevice::close_all() noexcept {
  if (is_fork_of_user()) return;  // other threads may have held the mutexes
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  for (CudaDevice* device : registry.devices) device->close();
}

void CudaDevice::close() noexcept {
  const std::lock_guard lock(mutex_);
  const bool only_default_stream = all_streams_.size() - free_streams_.size() <= 1;
  if (!only_default_stream) return;
  try {
    if (!memory_->is_idle()) return;
    const DeviceGuard guard(ordinal_, device_);
    release();
  } catch (const Error&) {  // everything is lost with the device
  }
}

void CudaDevice::release() noexcept {
  is_closed_ = true;
  kernels_.close();
  free_streams_.clear();
  urgent_streams_.clear();
  memory_->close();
  for (cudaStream_t stream : std::exchange(all_streams_, {})) {
    PrivateStreams::instance().remove(stream);
    LOCKSTEP_CUDA_LOG(cudaStreamSynchronize(stream));
    LOCKSTEP_CUDA_LOG(cudaStreamDestroy(stream));
  }
}

void* CudaDevice::allocate(std::size_t size_bytes, backend::StreamHandle stream) {
  return memory_->allocate(size_bytes, native(stream), device_);
}
void CudaDevice::deallocate(void* data, std::size_t size_bytes, backend::StreamHandle stream) noexcept {
  memory_->deallocate(data, size_bytes, native(stream));
}
void* CudaDevice::allocate_pinned(std::size_t size_bytes) {
  return PinnedMemory::instance().allocate(size_bytes, ordinal_, device_);
}
void CudaDevice::deallocate_pinned(void* data, std::size_t size_bytes) noexcept {
  PinnedMemory::instance().deallocate(data, size_bytes);
}
bool CudaDevice::is_pinned(const void* data) {
  const DeviceGuard guard(ordinal_, device_);
  return type_of(data) == cudaMemoryTypeHost;
}
void CudaDevice::trim_memory() {
  {
    const DeviceGuard guard(ordinal_, device_);
    LOCKSTEP_EXPECTS(
        !memory_->is_captured(), ContextError, "trim_memory on ", device_,
        ": a stream of its GPU is being captured, and trimming waits for all of them. Call it when the "
        "capture has ended.");
  }
#if LOCKSTEP_HAS_NCCL
  LeftCommunicators::instance().end_those_left();
#endif
  memory_->trim(device_);
  PinnedMemory::instance().trim();
}

backend::StreamHandle CudaDevice::create_stream(bool urgent) {
  const DeviceGuard guard(ordinal_, device_);
  {
    const std::lock_guard lock(mutex_);
    const auto idle = std::ranges::find_if(free_streams_, [&](cudaStream_t stream) {
      const bool is_urgent = std::ranges::find(urgent_streams_, stream) != urgent_streams_.end();
      return is_urgent == urgent && is_idle(stream);
    });
    if (idle != free_streams_.end()) {
      const cudaStream_t stream = *idle;
      free_streams_.erase(idle);
      PrivateStreams::instance().add(stream);  // whoever has its handle must not use it any more
      return handle_of(stream);
    }
  }
  cudaStream_t stream = nullptr;
  constexpr const char* kOperation = "Making a stream";
  int least = 0, greatest = 0;  // priorities; a smaller number is a greater one
  LOCKSTEP_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest), device_, kOperation);
  LOCKSTEP_CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
                      device_, kOperation);
  memory_->add(stream);
  PrivateStreams::instance().add(stream);
  const std::lock_guard lock(mutex_);
  all_streams_.push_back(stream);
  if (urgent) urgent_streams_.push_back(stream);
  return handle_of(stream);
}

void CudaDevice::give_out(backend::StreamHandle stream) noexcept {
  PrivateStreams::instance().remove(native(stream));
}
void CudaDevice::give_out(backend::EventHandle) noexcept { PrivateStreams::instance().give_out_event(); }

bool CudaDevice::is_capturing(backend::StreamHandle stream) {
  const DeviceGuard guard(ordinal_, device_);
  return is_in_capture(native(stream));
}

bool CudaDevice::has_failed_capture(backend::StreamHandle stream) {
  const DeviceGuard guard(ordinal_, device_);
  return capture_of(native(stream), device_).has_failed;
}

void CudaDevice::destroy_stream(backend::StreamHandle stream) noexcept {
  if (is_fork_of_user()) return;
  const std::lock_guard lock(mutex_);
  free_streams_.push_back(native(stream));
}

void CudaDevice::synchronize(backend::StreamHandle stream) {
  await(stream);
  require_results();
}

// Whoever destroys what used the stream has not heard of results that are lost.
void CudaDevice::finish(backend::StreamHandle stream) noexcept {
  try {
    await(stream);
  } catch (const Error&) {  // the device is lost
  }
}

void CudaDevice::await(backend::StreamHandle stream) {
  constexpr const char* kOperation = "Waiting for a stream";
  const DeviceGuard guard(ordinal_, device_);
  require_no_capture(kOperation, native(stream), device_, "Wait for the stream that it is launched on.");
  const OutsideCaptures outside;
  LOCKSTEP_CUDA_CHECK(cudaStreamSynchronize(native(stream)), device_, kOperation);
}

bool CudaDevice::is_complete(backend::StreamHandle stream) {
  constexpr const char* kOperation = "Asking whether a stream is complete";
  const DeviceGuard guard(ordinal_, device_);
  require_no_capture(kOperation, native(stream), device_, "Ask the stream that it is launched on.");
  const OutsideCaptures outside;
  const bool is_complete = is_done(LOCKSTEP_CUDA_CALL(cudaStreamQuery(native(stream))), device_, kOperation);
  if (is_complete) require_results();
  return is_complete;
}

backend::EventHandle CudaDevice::create_event() {
  const DeviceGuard guard(ordinal_, device_);
  cudaEvent_t event = nullptr;
  LOCKSTEP_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), device_, "Making an event");
  return handle_of(event);
}

void CudaDevice::destroy_event(backend::EventHandle event) noexcept try {
  const DeviceGuard guard(ordinal_, device_);
  CapturedEvents::instance().note(native(event), 0);
  LOCKSTEP_CUDA_LOG(cudaEventDestroy(native(event)));
} catch (const Error&) {  // it is lost with the device
}

void CudaDevice::record(backend::EventHandle event, backend::StreamHandle stream) {
  const DeviceGuard guard(ordinal_, device_);
  const Capture capture = capture_of(native(stream), device_);
  LOCKSTEP_CUDA_CHECK(cudaEventRecord(native(event), native(stream)), device_, "Recording an event");
  CapturedEvents::instance().note(native(event), capture.id);
}

void CudaDevice::require_not_captured(const char* operation, backend::EventHandle event, const char* failed) {
  LOCKSTEP_EXPECTS(CapturedEvents::instance().capture_of(native(event)) == 0, ContextError, operation, " on ",
                   device_, ": ", failed,
                   "the event was recorded in a capture, and marks work that runs when the graph is "
                   "launched. Wait for the stream that it is launched on, or record the event there.");
}

// CUDA breaks a capture that is to wait for an event from outside, whether the event is done or not.
void CudaDevice::wait(backend::StreamHandle stream, backend::EventHandle event) {
  constexpr const char* kOperation = "Making a stream wait for an event";
  const DeviceGuard guard(ordinal_, device_);
  const Capture capture = capture_of(native(stream), device_);
  if (capture) {
    const unsigned long long other = CapturedEvents::instance().capture_of(native(event));
    LOCKSTEP_EXPECTS(other == 0 || other == capture.id, ContextError, kOperation, " on ", device_,
                     ": the stream is being captured, and the event was recorded in another capture. Begin "
                     "one capture, and fork the other streams from its stream.");
    if (other == 0) {
      const OutsideCaptures outside;
      LOCKSTEP_EXPECTS(is_done(LOCKSTEP_CUDA_CALL(cudaEventQuery(native(event))), device_, kOperation),
                       ContextError, kOperation, " on ", device_,
                       ": the stream is being captured, and the event marks work outside the capture that "
                       "is not done, for which no graph waits. Synchronize its stream before the capture, "
                       "or fork it from the captured one.");
      return;
    }
  }
  const CallResult waited = LOCKSTEP_CUDA_CALL(cudaStreamWaitEvent(native(stream), native(event)));
  if (CapturedEvents::instance().capture_of(native(event)) != 0 ||
      PrivateStreams::instance().events_are_out())
    PrivateStreams::instance().note_capture(native(stream));  // it has joined the event's
  if (!capture && waited.failed() && !is_fatal(waited.code)) {
    cudaGetLastError();
    require_not_captured(kOperation, event, "cudaStreamWaitEvent failed, and ");  // its capture has ended
  }
  waited.require(device_, kOperation);
}

void CudaDevice::synchronize(backend::EventHandle event) {
  constexpr const char* kOperation = "Waiting for an event";
  const DeviceGuard guard(ordinal_, device_);
  require_not_captured(kOperation, event);
  const OutsideCaptures outside;
  LOCKSTEP_CUDA_CHECK(cudaEventSynchronize(native(event)), device_, kOperation);
  require_results();
}

bool CudaDevice::is_complete(backend::EventHandle event) {
  const bool is_complete = has_passed(event);
  if (is_complete) require_results();
  return is_complete;
}

bool CudaDevice::has_passed(backend::EventHandle event) {
  constexpr const char* kOperation = "Asking whether an event is complete";
  const DeviceGuard guard(ordinal_, device_);
  require_not_captured(kOperation, event);
  const OutsideCaptures outside;
  return is_done(LOCKSTEP_CUDA_CALL(cudaEventQuery(native(event))), device_, kOperation);
}

void CudaDevice::bind_thread() { make_current(ordinal_, device_); }

void CudaDevice::lose_results(std::shared_ptr<backend::Loss> loss) {
  const std::lock_guard lock(mutex_);
  losses_.push_back(std::move(loss));
  forget_known_losses();
}

void CudaDevice::begin_results() noexcept {
  const std::lock_guard lock(mutex_);
  begun_ = backend::Loss::now();
  forget_known_losses();
}

void CudaDevice::forget_known_losses() noexcept {
  std::erase_if(losses_, [this](const auto& loss) { return loss->was_told_before(begun_); });
  has_lost_results_ = !losses_.empty();
}

void CudaDevice::require_results() {
  if (!has_lost_results_) return;
  const std::lock_guard lock(mutex_);
  if (losses_.empty()) return;
  const backend::Loss& loss = *losses_.front();
  losses_.front()->tell();
  constexpr const char* kBegin = "Waiting for work of ";
  constexpr const char* kWhy = ", which may depend on a collective between GPUs: ";
  constexpr const char* kAdvice = " Make a new strategy, and restore a checkpoint.";
  LOCKSTEP_EXPECTS(!loss.is_time_out(), CollectiveTimeout, kBegin, device_, kWhy, loss.cause(), kAdvice);
  LOCKSTEP_EXPECTS(false, PeerLost, kBegin, device_, kWhy, loss.cause(), '.', kAdvice);
}

void CudaDevice::copy(void* destination, const void* source, std::size_t size_bytes,
                      backend::StreamHandle stream) {
  const DeviceGuard guard(ordinal_, device_);
  LOCKSTEP_CUDA_CHECK(
      cudaMemcpyAsync(destination, source, size_bytes, cudaMemcpyDeviceToDevice, native(stream)), device_,
      "Copying on the device");
}

void CudaDevice::copy_from_host(void* destination, const void* source, std::size_t size_bytes,
                                backend::StreamHandle stream) {
  const DeviceGuard guard(ordinal_, device_);
  if (const Capture capture = capture_of(native(stream), device_); capture && is_pageable(source)) {
    // The graph's own copy: the caller's values are read at the call.
    const auto* const first = static_cast<const std::byte*>(source);
    const auto values = std::make_shared<const std::vector<std::byte>>(first, first + size_bytes);
    keep_with(capture, values, device_);
    source = values->data();
  }
  LOCKSTEP_CUDA_CHECK(
      cudaMemcpyAsync(destination, source, size_bytes, cudaMemcpyHostToDevice, native(stream)), device_,
      "Copying from the host");
}

void CudaDevice::copy_to_host(void* destination, const void* source, std::size_t size_bytes,
                              backend::StreamHandle stream) {
  constexpr const char* kOperation = "Copying to the host";
  const DeviceGuard guard(ordinal_, device_);
  LOCKSTEP_EXPECTS(
      !capture_of(native(stream), device_) || !is_pageable(destination), ContextError, kOperation, " on ",
      device_,
      ": its stream is being captured, and ordinary memory cannot be written when the graph runs. "
      "Read values after the launch, or copy to a PinnedBuffer.");
  LOCKSTEP_CUDA_CHECK(
      cudaMemcpyAsync(destination, source, size_bytes, cudaMemcpyDeviceToHost, native(stream)), device_,
      kOperation);
}

void CudaDevice::copy_from_peer(void* destination, const void* source, backend::DeviceBackend& source_device,
                                std::size_t size_bytes, backend::StreamHandle stream) {
  auto& from = static_cast<CudaDevice&>(source_device);
  if (from.ordinal_ == ordinal_) return copy(destination, source, size_bytes, stream);
  const DeviceGuard guard(ordinal_, device_);
  if (!is_in_capture(native(stream))) reaches(from);  // a trial waits, which a capture forbids
  LOCKSTEP_CUDA_CHECK(
      cudaMemcpyPeerAsync(destination, ordinal_, source, from.ordinal_, size_bytes, native(stream)), device_,
      "Copying from another device");
}

bool CudaDevice::reaches(CudaDevice& other) noexcept {
  return PeerAccess::instance().prepare({ordinal_, device_, *memory_},
                                        {other.ordinal_, other.device_, *other.memory_});
}

}  // namespace lockstep::cuda
