#include "nccl/checks.hpp"

#include "nccl/group.hpp"

namespace vgpu::nccl {

ncclResult_t check(const char* name, ncclComm* comm, Needs needs) {
  if (!comm) return fail(nullptr, ncclInvalidArgument, std::string(name) + ": the communicator is NULL");
  if (comm->magic != ncclComm::alive)
    return fail(nullptr, ncclInvalidArgument,
                std::string(name) + ": the communicator was destroyed or is not one");
  last_rank_device = comm->device;
  if (needs >= Needs::ready && (!advance(*comm) || !comm->ready)) {
    if (comm->async != ncclSuccess) return comm->async;  // its initialisation has failed
    return fail(comm, ncclInvalidArgument,
                std::string(name) +
                    ": a call of the communicator is in progress until ncclCommGetAsyncError says otherwise");
  }
  if (needs < Needs::usable) return ncclSuccess;
  if (comm->aborted || comm->finalized)
    return fail(comm, ncclInvalidUsage,
                format("%s: the communicator is %s", name, comm->aborted ? "revoked" : "finalized"));
  bool is_in_progress = false;
  {
    Guard guard;
    is_in_progress = comm->in_progress != nullptr;
    if (!is_in_progress) look_for_lost(*comm->clique);
  }
  if (is_in_progress)
    return fail(
        comm, ncclInvalidArgument,
        format("%s: the communicator's last operation is in progress; ask ncclCommGetAsyncError first",
               name));
  return comm->async;
}

ncclResult_t check_buffer(const char* name, ncclComm* comm, const char* which, const void* pointer,
                          std::size_t bytes) {
  if (bytes == 0) return ncclSuccess;
  if (!pointer) return fail(comm, ncclInvalidArgument, format("%s: %s is NULL", name, which));
  const PointerInfo info = runtime().pointer(pointer);
  switch (info.kind) {
    case PointerInfo::Kind::unregistered:
      return fail(
          comm, ncclInvalidArgument,
          format("%s: %s %p is not device memory (nor pinned or managed host memory)", name, which, pointer));
    case PointerInfo::Kind::freed:
      return fail(comm, ncclInvalidArgument, format("%s: %s %p was freed", name, which, pointer));
    case PointerInfo::Kind::device:
      if (info.device != comm->device)
        return fail(comm, ncclInvalidArgument,
                    format("%s: %s %p is on device %d, rank %d uses device %d", name, which, pointer,
                           info.device, comm->rank, comm->device));
      break;
    default: break;
  }
  if (info.available < bytes)
    return fail(comm, ncclInvalidArgument,
                format("%s: %s %p needs %zu bytes, its allocation has %zu from there", name, which, pointer,
                       bytes, info.available));
  return ncclSuccess;
}

namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

ncclResult_t check_overlap(const char* name, ncclComm* comm, const void* send, std::size_t send_bytes,
                           const void* receive, std::size_t receive_bytes, std::size_t send_at,
                           std::size_t receive_at, bool in_place_allowed) {
  if (!overlap(send, send_bytes, receive, receive_bytes)) return ncclSuccess;
  if (in_place_allowed &&
      static_cast<const char*>(send) + send_at == static_cast<const char*>(receive) + receive_at)
    return ncclSuccess;
  return fail(comm, ncclInvalidArgument,
              format("%s: sendbuff and recvbuff overlap otherwise than for an operation in place", name));
}

ncclResult_t check_stream(const char* name, ncclComm* comm, cudaStream_t stream) {
  StreamInfo info;
  if (!runtime().stream_info(stream, comm->device, info))
    return fail(comm, ncclInvalidArgument, std::string(name) + ": the stream is not a live one");
  if (info.device != comm->device)
    return fail(comm, ncclInvalidUsage,
                format("%s: the stream belongs to device %d, rank %d uses device %d", name, info.device,
                       comm->rank, comm->device));
  return ncclSuccess;
}

}  // namespace vgpu::nccl
