#include "nccl/communicator.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "nccl/checks.hpp"
#include "nccl/group.hpp"

namespace vgpu::nccl {
namespace {

std::uint64_t next_clique = 1;
std::mutex last_error_mutex;
std::string last_error_text;

}  // namespace

thread_local DirectCall direct_call;

Runtime& runtime() {
  static Runtime& instance = *vgpu_runtime();
  return instance;
}

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char* text = nullptr;
  const int length = vasprintf(&text, pattern, arguments);
  va_end(arguments);
  if (length < 0) return {};
  std::string result(text, length);
  std::free(text);
  return result;
}

const char* result_name(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "ncclSuccess";
    case ncclUnhandledCudaError: return "ncclUnhandledCudaError";
    case ncclSystemError: return "ncclSystemError";
    case ncclInternalError: return "ncclInternalError";
    case ncclInvalidArgument: return "ncclInvalidArgument";
    case ncclInvalidUsage: return "ncclInvalidUsage";
    case ncclRemoteError: return "ncclRemoteError";
    case ncclInProgress: return "ncclInProgress";
    default: return "unknown result code";
  }
}

int result_by_name(const std::string& name) {
  for (int value = 1; value < ncclNumResults; ++value)
    if (name == result_name(static_cast<ncclResult_t>(value))) return value;
  runtime().report("VGPU_FAIL: there is no NCCL result called " + name);
  return ncclSystemError;
}

const char* type_name(int type) {
  static const char* const names[] = {"int8",    "uint8",    "int32",      "uint32",
                                      "int64",   "uint64",   "float16",    "float32",
                                      "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return type >= 0 && type < ncclNumTypes ? names[type] : "?";
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "ncclAllReduce";
    case Kind::reduce: return "ncclReduce";
    case Kind::broadcast: return "ncclBroadcast";
    case Kind::all_gather: return "ncclAllGather";
    case Kind::reduce_scatter: return "ncclReduceScatter";
    case Kind::all_to_all: return "ncclAlltoAll";
    case Kind::gather: return "ncclGather";
    case Kind::scatter: return "ncclScatter";
  }
  return "?";
}

ncclResult_t fail(ncclComm* comm, ncclResult_t result, const std::string& text) {
  runtime().report(text);
  std::lock_guard guard(last_error_mutex);
  last_error_text = text;
  if (comm) comm->last_error = text;
  return result;
}

bool allow_ungrouped() {
  static const bool allowed = [] {
    const char* value = std::getenv("VGPU_ALLOW_UNGROUPED");
    return value && *value && std::strcmp(value, "0") != 0;
  }();
  return allowed;
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = "{";
  for (std::size_t index = 0; index < ranks.size(); ++index)
    text += (index ? "," : "") + std::to_string(ranks[index]);
  return text + "}";
}

bool op_finished(const std::shared_ptr<Op>& op) { return runtime().finished(op); }

void remember(ncclComm& comm, const std::shared_ptr<Op>& op) {
  std::erase_if(comm.pending, op_finished);
  comm.pending.push_back(op);
}

void cancel_operations(ncclComm& comm) {
  for (const auto& op : comm.pending)
    if (!op_finished(op)) runtime().cancel(op);
  comm.pending.clear();
  runtime().notify();
}

void announce(ncclComm* comm) {
  runtime().object_created(
      "communicator", comm,
      format("%llu rank %d of %d (device %d)", static_cast<unsigned long long>(comm->clique->id), comm->rank,
             comm->clique->ranks, comm->device));
}

std::shared_ptr<Clique> make_clique(int ranks) {
  auto clique = std::make_shared<Clique>();
  clique->id = next_clique++;
  clique->ranks = ranks;
  clique->members.resize(ranks);
  clique->sequence.resize(ranks);
  return clique;
}

// With the lock held. Empty text on success.
std::string join_clique(const std::shared_ptr<Clique>& clique, ncclComm* comm) {
  if (clique->members[comm->rank]) return format("rank %d joins twice", comm->rank);
  for (ncclComm* other : clique->members)
    if (other && other->device == comm->device)
      return format("ranks %d and %d both use device %d (duplicate GPU)", other->rank, comm->rank,
                    comm->device);
  comm->clique = clique;
  clique->members[comm->rank] = comm;
  ++clique->joined;
  if (clique->complete())
    for (ncclComm* member : clique->members) member->ready = true;
  runtime().notify();
  return {};
}

namespace {

void set_external(Clique& clique, bool external) {
  if (clique.external == external) return;
  clique.external = external;
  runtime().external(external ? 1 : -1);
}

// The reason why ranks that have not joined never will.
std::string hopeless(Clique& clique) {
  if (look_for_lost(clique)) return "a process ended before all ranks had joined";
  for (int rank = 0; rank < clique.ranks; ++rank)
    if (clique.shared->state(rank) == SharedClique::State::gave_up)
      return format("rank %d has given up", rank);
  return {};
}

}  // namespace

bool share_clique(Clique& clique, const std::string& key) {
  clique.shared = std::make_shared<SharedClique>(key, clique.ranks);
  if (!clique.shared->usable()) clique.shared.reset();
  clique.lost.resize(clique.ranks);
  set_external(clique, clique.shared != nullptr);
  return clique.shared != nullptr;
}

bool all_here(Clique& clique) {
  if (clique.completed) return true;
  if (clique.shared && clique.error.empty() && !clique.complete())
    if (clique.error = hopeless(clique); !clique.error.empty()) clique.result = ncclRemoteError;
  if (!clique.error.empty() || (clique.shared && clique.complete())) {  // nothing to share
    clique.shared.reset();
    set_external(clique, false);
    clique.completed = clique.error.empty();
    return true;
  }
  if (!clique.shared) return clique.complete();
  if (!clique.shared->all_joined()) return false;
  clique.completed = true;
  clique.remote = true;  // and waits are patient until it ends
  clique.local = clique.joined;
  for (int a = 0; a < clique.ranks; ++a)
    for (int b = a + 1; b < clique.ranks; ++b)
      if (clique.shared->device(a) == clique.shared->device(b))
        clique.error =
            format("ranks %d and %d both use device %d (duplicate GPU)", a, b, clique.shared->device(a));
  for (ncclComm* member : clique.members)
    if (member) member->ready = true;
  return true;
}

void leave_clique(Clique& clique, int rank, SharedClique::State how) {
  if (!clique.shared) return;
  clique.shared->leave(rank, clique.completed ? how : SharedClique::State::gave_up);
  if (--clique.local <= 0) set_external(clique, false);
}

bool has_aborted(const Clique& clique, int rank) {
  if (clique.members[rank]) return clique.members[rank]->aborted;
  return clique.shared && clique.shared->state(rank) == SharedClique::State::aborted;
}

void set_async(Clique& clique, ncclResult_t error) {
  for (ncclComm* member : clique.members)
    if (member && member->async == ncclSuccess) member->async = error;
}

namespace {

// Whether something may still come from another process, or a process may still join.
bool awaited(const Clique& clique) {
  for (int rank = 0; rank < clique.ranks; ++rank)
    if (!clique.members[rank] && !clique.lost[rank] &&
        clique.shared->state(rank) <= SharedClique::State::joined)
      return true;
  return false;
}

}  // namespace

bool look_for_lost(Clique& clique) {
  if (!clique.shared) return false;
  std::string text;
  for (int rank = 0; rank < clique.ranks; ++rank) {
    if (clique.members[rank] || clique.lost[rank] || !clique.shared->lost(rank)) continue;
    clique.lost[rank] = true;
    text += format("%sprocess %d with rank %d of communicator %llu has ended without destroying it",
                   text.empty() ? "" : "\n", clique.shared->process(rank), rank,
                   static_cast<unsigned long long>(clique.id));
  }
  if (!text.empty()) {
    fail(nullptr, ncclRemoteError, text);
    set_async(clique, ncclRemoteError);
    set_external(clique, awaited(clique));
    runtime().notify();
  }
  return std::find(clique.lost.begin(), clique.lost.end(), true) != clique.lost.end();
}

}  // namespace vgpu::nccl

using namespace vgpu::nccl;

std::string ncclComm::name() const {
  return format("rank %d of communicator %llu", rank, static_cast<unsigned long long>(clique->id));
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  const char* const told = std::getenv("VGPU_NCCL_VERSION");
  *version = told && *told ? std::atoi(told) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (ncclResult_t result = check("ncclCommCount", comm, Needs::ready); result != ncclSuccess) return result;
  if (!count) return ncclInvalidArgument;
  *count = comm->clique->ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (ncclResult_t result = check("ncclCommCuDevice", comm, Needs::ready); result != ncclSuccess)
    return result;
  if (!device) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (ncclResult_t result = check("ncclCommUserRank", comm, Needs::ready); result != ncclSuccess)
    return result;
  if (!rank) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return api("ncclCommGetAsyncError", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommGetAsyncError", comm, Needs::communicator);
        result != ncclSuccess)
      return result;
    if (!error) return ncclInvalidArgument;
    if (!advance(*comm)) {
      *error = ncclInProgress;
      return ncclSuccess;
    }
    std::function<ncclResult_t()> submit;
    {
      Guard guard;
      if (comm->in_progress) {
        *error = ncclInProgress;
        if (!std::exchange(comm->was_asked, true)) return ncclSuccess;
        submit = std::exchange(comm->in_progress, nullptr);
      }
    }
    if (submit) {
      if ((*error = submit()) != ncclSuccess) comm->async = *error;
      return ncclSuccess;
    }
    Guard guard;
    if (comm->ready) look_for_lost(*comm->clique);
    if (comm->async != ncclSuccess)
      *error = comm->async;
    else if (runtime().sticky(comm->device) != cudaSuccess)
      *error = ncclUnhandledCudaError;
    else
      *error = ncclSuccess;
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  static thread_local std::string text;
  std::lock_guard guard(last_error_mutex);
  text = last_error_text;
  return text.c_str();
}

VGPU_ALIAS(ncclGetVersion)
VGPU_ALIAS(ncclCommCount)
VGPU_ALIAS(ncclCommCuDevice)
VGPU_ALIAS(ncclCommUserRank)
VGPU_ALIAS(ncclCommGetAsyncError)
VGPU_ALIAS(ncclGetErrorString)
VGPU_ALIAS(ncclGetLastError)
}
