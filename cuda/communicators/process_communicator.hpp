#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/process_group.hpp>
#include <lockstep/communication.hpp>

#include "device/cuda_device.hpp"

namespace lockstep::cuda {

/// make_cuda_communicator() of several processes.
///
/// The processes tell each other their GPUs, process 0 tells NCCL's id, all make their ranks, and tell each
/// other whether they could. Where one throws, all throw in the same call.
std::unique_ptr<backend::CommunicatorBackend> make_process_communicator(const std::vector<CudaDevice*>& ranks,
                                                                        const backend::ProcessRanks& all,
                                                                        const CommunicatorConfig& config);

}  // namespace lockstep::cuda
