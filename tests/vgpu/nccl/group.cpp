#include "nccl/group.hpp"

#include <algorithm>

namespace vgpu::nccl {

thread_local GroupState group;
thread_local int last_rank_device = -1;

ncclResult_t wait_all(std::vector<Pending>& pending) {
  ncclResult_t result = ncclSuccess;
  for (Pending& one : pending) {
    if (!one.blocking) {
      Guard guard;
      one.comm->unfinished.push_back(one);
      result = result == ncclSuccess ? ncclInProgress : result;
      continue;
    }
    if (runtime().wait(one.done, one.what) != cudaSuccess) {
      std::string missing;
      {
        Guard guard;
        missing = one.missing();
      }
      for (Pending& other : pending) other.cancel();
      return fail(nullptr, one.overdue, one.what + ": " + missing);
    }
    const ncclResult_t finished = one.finish();
    if (finished != ncclSuccess) {
      one.cancel();
      result = finished;
    }
  }
  return result;
}

bool advance(ncclComm& comm) {
  while (true) {
    Pending one;
    {
      Guard guard;
      if (comm.unfinished.empty()) return true;
    }
    runtime().poke();
    {
      Guard guard;
      if (comm.unfinished.empty()) return true;
      if (!comm.unfinished.front().done()) return false;
      one = std::move(comm.unfinished.front());
      comm.unfinished.erase(comm.unfinished.begin());
    }
    if (const ncclResult_t result = one.finish(); result != ncclSuccess) comm.async = result;
  }
}

namespace {

ncclResult_t submit_one(ncclComm* comm, cudaStream_t stream, std::shared_ptr<RankWork> work, bool grouped) {
  direct_call = {.active = true, .grouped = grouped};
  const cudaError_t error = runtime().enqueue(stream, comm->device, std::move(work));
  direct_call = {};
  if (error != cudaSuccess)
    return fail(comm, ncclUnhandledCudaError,
                format("NCCL: putting work on the stream fails: %s", cudaGetErrorName(error)));
  Guard guard;
  if (comm->aborted) cancel_operations(*comm);  // meanwhile, by another thread
  return comm->async;
}

// Of one communicator.
ncclResult_t submit_now(ncclComm* comm, const std::vector<Task>& tasks, bool grouped) {
  ncclResult_t result = ncclSuccess;
  // A group that uses several streams acts as if posted on each of them.
  std::vector<cudaStream_t> streams;
  for (const Task& task : tasks)
    if (std::find(streams.begin(), streams.end(), task.stream) == streams.end())
      streams.push_back(task.stream);
  for (std::size_t index = 1; index < streams.size(); ++index)
    runtime().order(streams[index], comm->device, streams[0], comm->device);
  std::vector<Transfer> transfers;
  for (const Task& task : tasks) {
    if (task.transfer) {
      transfers.push_back(task.one);
      continue;
    }
    const ncclResult_t one =
        submit_one(comm, streams[0], collective_work(comm, task.signature, task.buffers), grouped);
    if (one != ncclSuccess) result = one;
  }
  if (!transfers.empty()) {
    const ncclResult_t one = submit_one(comm, streams[0], transfer_work(comm, transfers), grouped);
    if (one != ncclSuccess) result = one;
  }
  for (std::size_t index = 1; index < streams.size(); ++index)
    runtime().order(streams[0], comm->device, streams[index], comm->device);
  return result;
}

}  // namespace

ncclResult_t submit_tasks(const std::vector<Task>& tasks, bool grouped) {
  std::vector<ncclComm*> comms;
  for (const Task& task : tasks)
    if (std::find(comms.begin(), comms.end(), task.comm) == comms.end()) comms.push_back(task.comm);
  ncclResult_t result = ncclSuccess;
  for (ncclComm* comm : comms) {
    std::vector<Task> own;
    for (const Task& task : tasks)
      if (task.comm == comm) own.push_back(task);
    ncclResult_t one = ncclInProgress;
    if (comm->blocking) {
      one = submit_now(comm, own, grouped);
    } else {
      Guard guard;
      comm->in_progress = [comm, own, grouped] { return submit_now(comm, own, grouped); };
      comm->was_asked = false;
    }
    if (one != ncclSuccess && (result == ncclSuccess || result == ncclInProgress)) result = one;
  }
  return result;
}

namespace {

ncclResult_t end_group() {
  if (group.depth == 0) return fail(nullptr, ncclInvalidUsage, "ncclGroupEnd: no group is open");
  if (--group.depth > 0) return ncclSuccess;
  GroupState state;
  std::swap(state, group);
  if (state.error != ncclSuccess) {
    if (!state.pending.empty() || !state.tasks.empty())
      runtime().report("ncclGroupEnd: a call of the group failed, nothing of it is started");
    for (Pending& one : state.pending) one.cancel();
    return state.error;
  }
  const ncclResult_t waited = wait_all(state.pending);
  if (waited != ncclSuccess && waited != ncclInProgress) return waited;
  const ncclResult_t submitted = submit_tasks(state.tasks, true);
  return submitted == ncclSuccess ? waited : submitted;
}

}  // namespace

ncclResult_t begin(const char* name) {
  if (runtime().device_count() == 0)
    return fail(nullptr, ncclUnhandledCudaError, std::string(name) + ": there is no device");
  return static_cast<ncclResult_t>(runtime().inject(name, result_by_name, ncclSystemError));
}

// Queries and operators do not.
static bool selects_device(std::string_view name) {
  return !name.starts_with("ncclRedOp") && name != "ncclCommGetAsyncError" && name != "ncclCommCount" &&
         name != "ncclCommUserRank" && name != "ncclCommCuDevice";
}

ncclResult_t finish(const char* name, ncclResult_t result, const std::string& info) {
  runtime().call_is_over(name);
  const bool failed = result != ncclSuccess && result != ncclInProgress;
  if (failed && group.depth > 0) group.error = result;
  // NCCL makes its ranks' devices current in turn, and leaves the last one so after an error.
  if (failed && last_rank_device >= 0 && runtime().strict_current_device() && selects_device(name))
    cudaSetDevice(last_rank_device);
  if (runtime().tracing())
    runtime().trace(format("thread %llu device %d %s(%s)%s%s",
                           static_cast<unsigned long long>(runtime().thread_number()),
                           runtime().current_device(), name, info.c_str(), result == ncclSuccess ? "" : " = ",
                           result == ncclSuccess ? "" : result_name(result)));
  return result;
}

}  // namespace vgpu::nccl

using namespace vgpu::nccl;

extern "C" {

ncclResult_t ncclGroupStart() {
  return api("ncclGroupStart", [&](std::string&) -> ncclResult_t {
    ++group.depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  bool has_ended = false;
  const ncclResult_t result = api("ncclGroupEnd", [&](std::string&) -> ncclResult_t {
    has_ended = true;
    return end_group();
  });
  if (!has_ended && group.depth > 0) end_group();  // an injected failure ends the group, too
  return result;
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (group.depth == 0) return ncclInvalidUsage;
  if (info) info->estimatedTime = static_cast<float>(10 * group.tasks.size());
  if (--group.depth == 0) group = {};
  return ncclSuccess;
}

VGPU_ALIAS(ncclGroupStart)
VGPU_ALIAS(ncclGroupEnd)
VGPU_ALIAS(ncclGroupSimulateEnd)
}
