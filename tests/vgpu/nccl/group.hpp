// Groups of calls, and how every call of the API begins and ends.
#pragma once

#include "nccl/collective.hpp"
#include "nccl/transfer.hpp"

namespace vgpu::nccl {

struct Task {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  bool transfer = false;
  Signature signature;
  Buffers buffers;
  Transfer one;
};

struct GroupState {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Task> tasks;
  std::vector<Pending> pending;
};
extern thread_local GroupState group;
// Of the communicator that this thread named last.
extern thread_local int last_rank_device;

// Waits for all, but leaves the calls of communicators that do not block to them.
ncclResult_t wait_all(std::vector<Pending>& pending);
// Whether no call of the communicator is in progress any more.
bool advance(ncclComm& comm);
// Puts the operations on their streams, those of a group, or a call's own: at once, or, of communicators that
// do not block, later.
ncclResult_t submit_tasks(const std::vector<Task>& tasks, bool grouped);

ncclResult_t begin(const char* name);
ncclResult_t finish(const char* name, ncclResult_t result, const std::string& info);

template <class Body>
ncclResult_t api(const char* name, Body&& body) {
  std::string info;
  ncclResult_t result = begin(name);
  if (result == ncclSuccess) result = body(info);
  return finish(name, result, info);
}

}  // namespace vgpu::nccl
