// Sends and receives.
#pragma once

#include "nccl/communicator.hpp"

namespace vgpu::nccl {

struct Transfer {
  bool send = false;
  int peer = 0;
  const void* buffer = nullptr;
  std::size_t count = 0;
  int type = 0;
};

// All of one rank's messages of a group.
std::shared_ptr<RankWork> transfer_work(ncclComm* comm, std::vector<Transfer> transfers);

}  // namespace vgpu::nccl
