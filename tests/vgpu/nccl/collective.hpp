// Collectives: one step that the streams of all ranks take together.
#pragma once

#include "nccl/communicator.hpp"

namespace vgpu::nccl {

struct Buffers {
  int device = 0;
  const void* send = nullptr;
  void* receive = nullptr;
  Scalar scalar;  // for pre-multiplied sums
};

std::shared_ptr<RankWork> collective_work(ncclComm* comm, const Signature& signature, const Buffers& buffers);

}  // namespace vgpu::nccl
