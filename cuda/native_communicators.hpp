#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <nccl.h>

#include <lockstep/device.hpp>

#include "nccl_library.hpp"

namespace lockstep::cuda {

/// Makes a group of communicators, one for each GPU, in a thread of its own.
/// @param ordinals  the CUDA runtime's numbers of the GPUs. @param device  the first rank's, for messages.
/// @throws CollectiveError    NCCL failed. @throws CollectiveTimeout  it took longer than `limit`.
std::vector<ncclComm_t> make_native_communicators(const std::vector<int>& ordinals, const Device& device,
                                                  std::chrono::milliseconds limit);
/// Returns when what was given up after its time limit is cleared away.
void wait_for_abandoned_communicators();

/// Ends what a communicator is doing, where NCCL can (2.28.7), and frees nothing.
void revoke(ncclComm_t communicator) noexcept;

/// What a communicator has come to, waited for where it does not block, unless `gives_up()`.
template <class GivesUp>
ncclResult_t state_of(ncclComm_t communicator, const GivesUp& gives_up) {
  for (;;) {
    ncclResult_t state = ncclSuccess;
    if (const ncclResult_t code = ncclCommGetAsyncError(communicator, &state); code != ncclSuccess)
      return code;
    if (state != ncclInProgress || gives_up()) return state;
    std::this_thread::yield();
  }
}

}  // namespace lockstep::cuda
