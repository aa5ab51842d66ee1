#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include <nccl.h>

#include <lockstep/device.hpp>

#include "libraries/nccl_error.hpp"
#include "libraries/nccl_library.hpp"

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

/// Waits for a communicator that does not block, unless `gives_up()`.
/// @throws CollectiveError  what it did last has failed, or is in progress still.
template <class GivesUp>
void require_settled(ncclComm_t communicator, const GivesUp& gives_up, const Device& device,
                     std::string_view operation) {
  constexpr const char* kCall = "a call that ncclCommGetAsyncError tells of";
  for (;;) {
    ncclResult_t state = ncclSuccess;
    LOCKSTEP_NCCL_CHECK(ncclCommGetAsyncError(communicator, &state), communicator, device, operation);
    if (state == ncclSuccess) return;
    if (state != ncclInProgress || gives_up())
      throw_nccl_error(state, kCall, {__FILE__, __LINE__, __func__}, communicator, device, operation);
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
  /// end_those_left is called: with the next communicator that is made or ends, by trim_memory of any GPU,
  /// and at the process's end.
  void end(Group group) noexcept;
  void end_those_left() noexcept;

 private:
  std::mutex mutex_;  // guards groups_
  std::vector<Group> groups_;
};

}  // namespace lockstep::cuda
