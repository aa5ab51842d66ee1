#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <nccl.h>

#include "device/cuda_device.hpp"
#include "device/last_work.hpp"

namespace lockstep::cuda {

/// A rank's memory for packs that NCCL has registered with all ranks, as a symmetric window. It grows to
/// powers of two, and what it had stays registered until the end, so that a call that needs more waits for no
/// other.
///
/// Every rank makes the same calls with equal sizes in the same order, and gives NCCL the same places in it,
/// on which NCCL's kernels rely. What a rank does with it on one stream follows what it did on another.
class SymmetricWindow {
 public:
  /// Before 2.28.7 NCCL could corrupt short values, and several in a group, which is what packs are.
  static constexpr int kOldestNccl = 22807;
  /// Whether the NCCL that is loaded, and the headers, have windows to rely on.
  static bool is_supported();

  explicit SymmetricWindow(CudaDevice& device);
  /// @pre The communicator has ended, or withdraw() was called.
  ~SymmetricWindow();
  SymmetricWindow(const SymmetricWindow&) = delete;
  SymmetricWindow& operator=(const SymmetricWindow&) = delete;

  bool holds(std::int64_t size_bytes) const;
  /// Takes the memory for so many bytes. Waits for no other rank. @throws OutOfMemory, DeviceError
  void allocate(std::int64_t size_bytes);
  /// Registers it. All ranks call it; it waits for them.
  ncclResult_t enlist(ncclComm_t communicator);

  /// The memory, for work on `stream`, until end(). @throws DeviceError
  std::byte* begin(backend::StreamHandle stream);
  void end(backend::StreamHandle stream) noexcept;

  /// Waits for the communicator's last work, and ends the registration. @param last  behind its last
  /// collective.
  void withdraw(ncclComm_t communicator, backend::EventHandle last) noexcept;

 private:
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
  using Handle = ncclWindow_t;
#else
  using Handle = void*;
#endif
  struct Part {
    void* data;
    std::size_t size_bytes;
    Handle handle;
  };
  void wait_for(backend::EventHandle event) noexcept;

  CudaDevice& device_;
  std::vector<Part> parts_;  // growing; the last one is in use
  LastWork last_;
};

}  // namespace lockstep::cuda
