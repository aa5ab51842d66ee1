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
///
/// Sets NCCL_LAUNCH_ORDER_IMPLICIT=1 in the environment unless it is there: NCCL reads it with the first
/// communicator of the process.
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

/// Communicators whose owner has gone while CUDA graphs had their calls. NCCL waits, when a communicator is
/// to end, for the end of these graphs, which may be the calling thread's to destroy. Thread-safe.
class LeftCommunicators {
 public:
  struct Group {
    std::vector<ncclComm_t> communicators;
    std::shared_ptr<const void> captured;  // also of each graph that has their calls
    bool is_aborted = false;

    bool has_graphs() const { return captured.use_count() > 1; }
  };

  static LeftCommunicators& instance();

  /// Ends a group: now if its graphs are gone, or go within a second; else when they are gone and
  /// end_those_left is called, as at the process's end.
  void end(Group group) noexcept;
  void end_those_left() noexcept;

 private:
  std::mutex mutex_;  // guards groups_
  std::vector<Group> groups_;
};

}  // namespace lockstep::cuda
