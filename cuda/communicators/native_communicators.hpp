#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nccl.h>

#include <lockstep/communication.hpp>
#include <lockstep/device.hpp>

#include "device/cuda_device.hpp"
#include "libraries/nccl_error.hpp"
#include "libraries/nccl_library.hpp"

namespace lockstep::cuda {

/// The CUDA runtime's numbers of the GPUs.
std::vector<int> ordinals_of(const std::vector<CudaDevice*>& devices);

/// A group that several processes make together.
struct SharedGroup {
  ncclUniqueId id{};              ///< The same one in all processes.
  int first_rank = 0;             ///< Of this process.
  int num_ranks = 0;              ///< Of all processes.
  std::function<void()> go_on{};  ///< Called now and then by whoever waits; throws where it need not wait.
};

/// What of a config an NCCL is too old for, and since when NCCL has it; empty: nothing. @param version  as
/// NCCL_VERSION_CODE, of the older one of the headers and the NCCL that is loaded.
std::string left_out_of(const CommunicatorConfig& config, int version);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
/// A config, without its name, for the NCCL of that version.
ncclConfig_t native_config(const CommunicatorConfig& config, int version);
#endif

/// Makes a group of communicators, one for each GPU, in a thread of its own.
///
/// Sets NCCL_LAUNCH_ORDER_IMPLICIT=1 in the environment unless it is there: NCCL reads it with the first
/// communicator of the process.
/// @param ordinals  the CUDA runtime's numbers of the GPUs of this process. @param device  the first rank's,
/// for messages. @param shared  null: all ranks are in this process. @param config  what is not the default
/// becomes a member of ncclConfig_t, if NCCL is at least 2.27.
/// @throws CollectiveError    NCCL failed. @throws CollectiveTimeout  it took longer than `limit`.
std::vector<ncclComm_t> make_native_communicators(const std::vector<int>& ordinals, const Device& device,
                                                  std::chrono::milliseconds limit,
                                                  const SharedGroup* shared = nullptr,
                                                  const CommunicatorConfig& config = {});
/// The id of a group that several processes make. @throws CollectiveError
ncclUniqueId make_native_id(const Device& device);
/// Waits until creations that were given up after their time limit are cleared away.
void wait_for_abandoned_communicators();

/// Ends a communicator's calls under way, where NCCL can (2.28.7). Frees nothing. @return whether NCCL can.
bool revoke(ncclComm_t communicator) noexcept;

/// Waits for a nonblocking communicator's last call, unless `gives_up()`.
/// @throws CollectiveError  the call has failed, or is still in progress.
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

}  // namespace lockstep::cuda
