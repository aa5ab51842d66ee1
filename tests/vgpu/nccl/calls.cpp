// The calls that move data, and operators of reductions.
#include <cstring>

#include "nccl/checks.hpp"
#include "nccl/group.hpp"

namespace vgpu::nccl {
namespace {

std::string call_info(const ncclComm* comm, const Signature& signature, cudaStream_t stream) {
  if (!runtime().tracing()) return {};
  StreamInfo info;
  runtime().stream_info(stream, comm->device, info);
  return format("%s, rank %d of communicator %llu, stream %llu", signature.text().c_str(), comm->rank,
                static_cast<unsigned long long>(comm->clique->id), static_cast<unsigned long long>(info.id));
}

ncclResult_t collective(const char* name, Kind kind, const void* send, void* receive, std::size_t count,
                        ncclDataType_t type, int op, int root, ncclComm* comm, cudaStream_t stream) {
  return api(name, [&](std::string& info) -> ncclResult_t {
    if (ncclResult_t result = check(name, comm); result != ncclSuccess) return result;
    if (type < 0 || type >= ncclNumTypes)
      return fail(comm, ncclInvalidArgument, format("%s: %d is not a data type", name, type));
    const int ranks = comm->clique->ranks;
    if (root >= ranks || root < -1)
      return fail(comm, ncclInvalidArgument, format("%s: root %d of %d ranks", name, root, ranks));
    Task task;
    task.comm = comm;
    task.stream = stream;
    task.signature = {kind, count, type, op, root};
    task.buffers = {comm->device, send, receive, {}};
    if (op >= static_cast<int>(ncclNumOps)) {
      Guard guard;
      const std::size_t index = op - ncclNumOps;
      if (index >= comm->redops.size() || comm->redops[index].destroyed || comm->redops[index].type != type) {
        runtime().unlock();
        const ncclResult_t result = fail(
            comm, ncclInvalidArgument,
            format("%s: operator %d was not created for this communicator and data type, or was destroyed",
                   name, op));
        runtime().lock();
        return result;
      }
      const RedOp& redop = comm->redops[index];
      std::memcpy(task.buffers.scalar.bytes, redop.scalar, 8);
      task.buffers.scalar.device = redop.device_scalar;
      task.signature.op = ncclNumOps;
    } else if (op > ncclAvg) {
      return fail(comm, ncclInvalidArgument, format("%s: %d is not a reduction operator", name, op));
    }
    const std::size_t bytes = count * type_bytes(type), all = bytes * ranks;
    const std::size_t mine = bytes * comm->rank;
    const bool is_root = comm->rank == root;
    std::size_t send_bytes = bytes, receive_bytes = bytes;
    std::size_t send_at = 0, receive_at = 0;
    bool in_place = true;
    switch (kind) {
      case Kind::all_reduce: break;
      case Kind::reduce: receive_bytes = is_root ? bytes : 0; break;
      case Kind::broadcast: send_bytes = is_root ? bytes : 0; break;
      case Kind::all_gather:
        receive_bytes = all;
        receive_at = mine;
        break;
      case Kind::reduce_scatter:
        send_bytes = all;
        send_at = mine;
        break;
      case Kind::all_to_all:
        send_bytes = receive_bytes = all;
        in_place = false;
        break;
      case Kind::gather:
        receive_bytes = is_root ? all : 0;
        receive_at = mine;
        break;
      case Kind::scatter:
        send_bytes = is_root ? all : 0;
        send_at = mine;
        break;
    }
    info = call_info(comm, task.signature, stream);
    if (ncclResult_t result = check_stream(name, comm, stream); result != ncclSuccess) return result;
    if (count == 0) return ncclSuccess;
    if (ncclResult_t result = check_buffer(name, comm, "sendbuff", send, send_bytes); result != ncclSuccess)
      return result;
    if (ncclResult_t result = check_buffer(name, comm, "recvbuff", receive, receive_bytes);
        result != ncclSuccess)
      return result;
    if (kind == Kind::all_reduce || kind == Kind::reduce_scatter)
      task.signature.places += place_in_window(*comm, send, send_bytes);
    if (kind == Kind::all_reduce || kind == Kind::all_gather)
      task.signature.places += place_in_window(*comm, receive, receive_bytes);
    if (send_bytes && receive_bytes)
      if (ncclResult_t result = check_overlap(name, comm, send, send_bytes, receive, receive_bytes, send_at,
                                              receive_at, in_place);
          result != ncclSuccess)
        return result;
    if (group.depth > 0) {
      group.tasks.push_back(task);
      return ncclSuccess;
    }
    std::vector<Task> tasks{task};
    return submit_tasks(tasks, false);
  });
}

ncclResult_t transfer(const char* name, bool send, const void* buffer, std::size_t count, ncclDataType_t type,
                      int peer, ncclComm* comm, cudaStream_t stream) {
  return api(name, [&](std::string& info) -> ncclResult_t {
    if (ncclResult_t result = check(name, comm); result != ncclSuccess) return result;
    if (type < 0 || type >= ncclNumTypes)
      return fail(comm, ncclInvalidArgument, format("%s: %d is not a data type", name, type));
    if (peer < 0 || peer >= comm->clique->ranks)
      return fail(comm, ncclInvalidArgument,
                  format("%s: peer %d of %d ranks", name, peer, comm->clique->ranks));
    info = format("count=%zu, %s, peer %d, rank %d of communicator %llu", count, type_name(type), peer,
                  comm->rank, static_cast<unsigned long long>(comm->clique->id));
    if (ncclResult_t result = check_stream(name, comm, stream); result != ncclSuccess) return result;
    if (ncclResult_t result =
            check_buffer(name, comm, send ? "sendbuff" : "recvbuff", buffer, count * type_bytes(type));
        result != ncclSuccess)
      return result;
    if (peer == comm->rank && group.depth == 0)
      return fail(comm, ncclInvalidUsage,
                  format("%s to the own rank outside a group would wait forever", name));
    Task task;
    task.comm = comm;
    task.stream = stream;
    task.transfer = true;
    task.one = {send, peer, buffer, count, type};
    if (group.depth > 0) {
      group.tasks.push_back(task);
      return ncclSuccess;
    }
    std::vector<Task> tasks{task};
    return submit_tasks(tasks, false);
  });
}

}  // namespace

}  // namespace vgpu::nccl

using namespace vgpu::nccl;

extern "C" {

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce", Kind::all_reduce, send, receive, count, type, op, -1, comm, stream);
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  if (root < 0) root = 1 << 30;
  return collective("ncclReduce", Kind::reduce, send, receive, count, type, op, root, comm, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  if (root < 0) root = 1 << 30;
  return collective("ncclBroadcast", Kind::broadcast, send, receive, count, type, -1, root, comm, stream);
}
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllGather", Kind::all_gather, send, receive, count, type, -1, -1, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter", Kind::reduce_scatter, send, receive, count, type, op, -1, comm,
                    stream);
}
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return collective("ncclAlltoAll", Kind::all_to_all, send, receive, count, type, -1, -1, comm, stream);
}
ncclResult_t ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  if (root < 0) root = 1 << 30;
  return collective("ncclGather", Kind::gather, send, receive, count, type, -1, root, comm, stream);
}
ncclResult_t ncclScatter(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  if (root < 0) root = 1 << 30;
  return collective("ncclScatter", Kind::scatter, send, receive, count, type, -1, root, comm, stream);
}
ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer("ncclSend", true, buffer, count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return transfer("ncclRecv", false, buffer, count, type, peer, comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return api("ncclRedOpCreatePreMulSum", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclRedOpCreatePreMulSum", comm); result != ncclSuccess) return result;
    if (!op || !scalar || type < 0 || type >= ncclNumTypes)
      return fail(comm, ncclInvalidArgument, "ncclRedOpCreatePreMulSum: bad argument");
    RedOp redop;
    redop.type = type;
    if (residence == ncclScalarHostImmediate) {
      std::memcpy(redop.scalar, scalar, type_bytes(type));
    } else {
      if (ncclResult_t result =
              check_buffer("ncclRedOpCreatePreMulSum", comm, "scalar", scalar, type_bytes(type));
          result != ncclSuccess)
        return result;
      redop.on_device = true;
      redop.device_scalar = scalar;
    }
    Guard guard;
    comm->redops.push_back(redop);
    *op = static_cast<ncclRedOp_t>(ncclNumOps + comm->redops.size() - 1);
    return ncclSuccess;
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return api("ncclRedOpDestroy", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclRedOpDestroy", comm, Needs::communicator); result != ncclSuccess)
      return result;
    const int index = static_cast<int>(op) - static_cast<int>(ncclNumOps);
    if (index < 0 || index >= static_cast<int>(comm->redops.size()) || comm->redops[index].destroyed)
      return fail(comm, ncclInvalidArgument, "ncclRedOpDestroy: not an operator of this communicator");
    comm->redops[index].destroyed = true;
    return ncclSuccess;
  });
}

VGPU_ALIAS(ncclAllReduce)
VGPU_ALIAS(ncclReduce)
VGPU_ALIAS(ncclBroadcast)
VGPU_ALIAS(ncclBcast)
VGPU_ALIAS(ncclAllGather)
VGPU_ALIAS(ncclReduceScatter)
VGPU_ALIAS(ncclAlltoAll)
VGPU_ALIAS(ncclGather)
VGPU_ALIAS(ncclScatter)
VGPU_ALIAS(ncclSend)
VGPU_ALIAS(ncclRecv)
VGPU_ALIAS(ncclRedOpCreatePreMulSum)
VGPU_ALIAS(ncclRedOpDestroy)
}
