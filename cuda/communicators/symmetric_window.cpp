#include "communicators/symmetric_window.hpp"

#include <algorithm>
#include <bit>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "libraries/nccl_library.hpp"
#include "native.hpp"

namespace lockstep::cuda {

bool SymmetricWindow::is_supported() {
  return NCCL_VERSION_CODE >= kOldestNccl && loaded_nccl_version() >= kOldestNccl;
}

SymmetricWindow::SymmetricWindow(CudaDevice& device) : device_(device), last_(device) {}

SymmetricWindow::~SymmetricWindow() {
  if (is_fork_of_user()) return;
  last_.finish();
  const CallerDevice caller;
  const OutsideCaptures outside;
  for (const Part& part : parts_) ncclMemFree(part.data);
}

bool SymmetricWindow::holds(std::int64_t size_bytes) const {
  return !parts_.empty() && static_cast<std::size_t>(size_bytes) <= parts_.back().size_bytes;
}

void SymmetricWindow::allocate(std::int64_t size_bytes) {
  const Device& device = device_.device();
  const CallerDevice caller;
  const OutsideCaptures outside;
  constexpr std::size_t kLeastBytes = std::size_t{2} << 20;  // what the driver maps at a time
  const std::size_t size = std::bit_ceil(std::max(static_cast<std::size_t>(size_bytes), kLeastBytes));
  void* data = nullptr;
  const auto take = [&] {
    const DeviceGuard guard(device_.ordinal(), device);  // an error of NCCL leaves another device current
    const ncclResult_t taken = ncclMemAlloc(&data, size);
    if (taken != ncclSuccess) cudaGetLastError();
    return taken;
  };
  ncclResult_t taken = take();
  if (taken != ncclSuccess) {
    device_.kernels().place_on({}).memory.trim(device);
    taken = take();
  }
  LOCKSTEP_EXPECTS(taken == ncclSuccess, OutOfMemory, "Allocating a symmetric window on ", device, ": ", size,
                   " bytes requested, and ncclMemAlloc failed with ", ncclGetErrorString(taken),
                   ". Free tensors, make packs smaller, or leave CommunicatorConfig::symmetric_windows out.");
  parts_.push_back({data, size, nullptr});
}

ncclResult_t SymmetricWindow::enlist([[maybe_unused]] ncclComm_t communicator) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
  Part& part = parts_.back();
  return ncclCommWindowRegister(communicator, part.data, part.size_bytes, &part.handle,
                                NCCL_WIN_COLL_SYMMETRIC);
#else
  return ncclInvalidUsage;
#endif
}

std::byte* SymmetricWindow::begin(backend::StreamHandle stream) {
  last_.follow(stream);
  return static_cast<std::byte*>(parts_.back().data);
}

void SymmetricWindow::end(backend::StreamHandle stream) noexcept try {
  last_.set(stream);
} catch (const Error&) {  // what follows waits for it
}

// An event that was never recorded is waited for at once.
void SymmetricWindow::wait_for(backend::EventHandle event) noexcept try {
  const DeviceGuard guard(device_.ordinal(), device_.device());
  const OutsideCaptures outside;
  if (cudaEventSynchronize(native(event)) != cudaSuccess) cudaGetLastError();
} catch (const Error&) {  // the device is lost
}

void SymmetricWindow::withdraw([[maybe_unused]] ncclComm_t communicator, backend::EventHandle last) noexcept {
  last_.finish();
  wait_for(last);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
  const OutsideCaptures outside;
  for (Part& part : parts_) {
    if (part.handle != nullptr) ncclCommWindowDeregister(communicator, part.handle);
    part.handle = nullptr;
  }
#endif
}

}  // namespace lockstep::cuda
