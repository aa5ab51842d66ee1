#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend/communicator_backend.hpp>
#include <lockstep/backend/process_group.hpp>
#include <lockstep/communication.hpp>

#include "device/cuda_device.hpp"

namespace lockstep::cuda {

/// NCCL's for distinct GPUs, the library's own kernels for virtual devices of one.
/// @throws Unsupported  several GPUs, one of them more than once; or several in a build without NCCL.
std::unique_ptr<backend::CommunicatorBackend> make_cuda_communicator(std::vector<CudaDevice*> ranks,
                                                                     const CommunicatorConfig& config);
/// This process's part of a communicator over several processes, which is NCCL's. The processes make it
/// together. @param ranks  the devices of this process's ranks.
/// @throws InvalidArgument  two processes have one GPU. @throws Unsupported  one process has a GPU twice; a
/// build without NCCL. @throws CollectiveError  NCCL failed. @throws CollectiveTimeout  it took too long.
/// @throws CollectiveAborted, PeerLost  another process failed: has its text.
std::unique_ptr<backend::CommunicatorBackend> make_cuda_communicator(std::vector<CudaDevice*> ranks,
                                                                     const backend::ProcessRanks& all,
                                                                     const CommunicatorConfig& config);

// In builds with NCCL.
/// The CUDA runtime's numbers of the GPUs of a group of ncclComm_ts. @throws InvalidArgument
std::vector<int> ordinals_of(std::span<void* const> communicators);
std::unique_ptr<backend::CommunicatorBackend> adopt_cuda_communicators(const std::vector<CudaDevice*>& ranks,
                                                                       std::span<void* const> communicators);

}  // namespace lockstep::cuda
