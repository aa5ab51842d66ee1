// How communicators begin and end.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>

#include <unistd.h>

#include "nccl/checks.hpp"
#include "nccl/group.hpp"

namespace vgpu::nccl {
namespace {

struct IdContent {
  std::uint64_t magic, process, number, random;
};
constexpr std::uint64_t id_magic = 0x5647505549443031ull;

std::map<std::string, std::shared_ptr<Clique>>& cliques_by_id() {
  static auto* map = new std::map<std::string, std::shared_ptr<Clique>>;
  return *map;
}

std::string missing_ranks(const Clique& clique) {
  std::vector<int> here, missing;
  for (int rank = 0; rank < clique.ranks; ++rank)
    (clique.members[rank] || (clique.shared && clique.shared->joined(rank)) ? here : missing).push_back(rank);
  return "ranks " + ranks_text(here) + " have joined, ranks " + ranks_text(missing) +
         " have not;\n  a thread that initialises several ranks must do so between ncclGroupStart and "
         "ncclGroupEnd";
}

ncclResult_t init_rank(const char* name, ncclComm** out, int ranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config) {
  return api(name, [&](std::string& info) -> ncclResult_t {
    if (!out) return fail(nullptr, ncclInvalidArgument, std::string(name) + ": comm is NULL");
    *out = nullptr;
    info = format("rank %d of %d", rank, ranks);
    if (ranks < 1 || rank < 0 || rank >= ranks)
      return fail(nullptr, ncclInvalidArgument, format("%s: rank %d of %d", name, rank, ranks));
    bool blocking = true;
    if (config) {
      if (config->magic != 0xcafebeef)
        return fail(nullptr, ncclInvalidArgument,
                    std::string(name) + ": config was not set with NCCL_CONFIG_INITIALIZER");
      if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1)
        return fail(nullptr, ncclInvalidArgument, std::string(name) + ": config.blocking is neither 0 nor 1");
      int version = 0;
      ncclGetVersion(&version);
      const int last_policy =
          version >= NCCL_VERSION(2, 28, 0) ? NCCL_CTA_POLICY_ZERO : NCCL_CTA_POLICY_EFFICIENCY;
      if (config->CTAPolicy != NCCL_CONFIG_UNDEF_INT &&
          (config->CTAPolicy < NCCL_CTA_POLICY_DEFAULT || config->CTAPolicy > last_policy))
        return fail(
            nullptr, ncclInvalidArgument,
            format("%s: config.CTAPolicy is %d, which this NCCL does not know", name, config->CTAPolicy));
      blocking = config->blocking != 0;
    }
    if (const char* value = std::getenv("NCCL_COMM_BLOCKING")) blocking = std::strcmp(value, "0") != 0;
    IdContent content;
    std::memcpy(&content, id.internal, sizeof content);
    if (content.magic != id_magic)
      return fail(nullptr, ncclInvalidArgument,
                  std::string(name) + ": the unique id is not from ncclGetUniqueId");
    auto* comm = new ncclComm;
    comm->rank = rank;
    comm->device = runtime().current_device();
    comm->thread = runtime().thread_number();
    comm->blocking = blocking;
    std::string problem;
    std::shared_ptr<Clique> clique;
    {
      Guard guard;
      auto& slot = cliques_by_id()[std::string(id.internal, sizeof id.internal)];
      if (!slot) {
        slot = make_clique(ranks);
        // Others may come from other processes, unless all are initialised here at once.
        if (ranks > 1 && ranks <= SharedClique::max_ranks)
          share_clique(*slot, format("%llu-%llu-%llx", static_cast<unsigned long long>(content.process),
                                     static_cast<unsigned long long>(content.number),
                                     static_cast<unsigned long long>(content.random)));
      }
      clique = slot;
      if (clique->ranks == ranks && clique->shared && !clique->members[rank]) {
        if (clique->shared->ranks() != ranks)
          problem = format("%d ranks, but another process said %d", ranks, clique->shared->ranks());
        else if (!clique->shared->claim(rank, runtime().current_device()))
          problem = format("rank %d has joined from another process", rank);
      }
      if (!problem.empty()) {
      } else if (clique->ranks != ranks)
        problem = format("%d ranks, but another rank said %d", ranks, clique->ranks);
      else
        problem = join_clique(clique, comm);
      if (!problem.empty()) clique->error = problem;
      if (!problem.empty()) runtime().notify();
    }
    if (!problem.empty()) {
      delete comm;
      return fail(nullptr, ncclInvalidUsage, format("%s: rank %d: %s", name, rank, problem.c_str()));
    }
    announce(comm);
    *out = comm;
    Pending pending;
    pending.comm = comm;
    pending.what = format("%s of rank %d of %d (communicator %llu)", name, rank, ranks,
                          static_cast<unsigned long long>(clique->id));
    pending.blocking = blocking;
    pending.done = [clique] { return all_here(*clique); };
    pending.missing = [clique] { return missing_ranks(*clique); };
    pending.finish = [clique, name] {
      return clique->error.empty()
                 ? ncclSuccess
                 : fail(nullptr, clique->result, format("%s: %s", name, clique->error.c_str()));
    };
    pending.cancel = [out, comm, clique] {
      {
        Guard guard;
        if (clique->error.empty()) clique->error = "the initialisation was given up";
        all_here(*clique);
        leave_clique(*clique, comm->rank, SharedClique::State::gave_up);
      }
      *out = nullptr;
      runtime().object_destroyed("communicator", comm);
    };
    if (group.depth > 0) {
      group.pending.push_back(pending);
      return ncclSuccess;
    }
    std::vector<Pending> one{pending};
    return wait_all(one);
  });
}

// The end of the communicator's operations.
Pending drained(const char* name, ncclComm* comm) {
  Pending pending;
  pending.comm = comm;
  pending.blocking = comm->blocking;
  pending.what = format("%s of %s", name, comm->name().c_str());
  pending.done = [comm] { return std::all_of(comm->pending.begin(), comm->pending.end(), op_finished); };
  pending.finish = [] { return ncclSuccess; };
  pending.missing = [] { return "its operations do not end"; };
  pending.overdue = ncclSystemError;
  return pending;
}

// Where graphs still have calls of the communicator, NCCL waits for these graphs' end, for ever if this
// thread is to end them.
ncclResult_t check_captured(const char* name, ncclComm* comm) {
  const std::string graphs = runtime().graphs_with([comm](const CustomWork& work) {
    const auto* mine = dynamic_cast<const RankWork*>(&work);
    return mine && mine->comm == comm;
  });
  if (graphs.empty()) return ncclSuccess;
  return fail(
      comm, ncclSystemError,
      format("%s of %s: its calls are in %s; NCCL would wait until that is destroyed, so destroy it first",
             name, comm->name().c_str(), graphs.c_str()));
}

void dispose(ncclComm* comm, SharedClique::State how) {
  {
    Guard guard;
    comm->magic = 0;  // the object stays: stale handles are told from live ones
    leave_clique(*comm->clique, comm->rank, how);
  }
  runtime().object_destroyed("communicator", comm);
}

}  // namespace

}  // namespace vgpu::nccl

using namespace vgpu::nccl;

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return api("ncclGetUniqueId", [&](std::string&) -> ncclResult_t {
    if (!id) return ncclInvalidArgument;
    static std::atomic<std::uint64_t> count{0};
    std::memset(id, 0, sizeof *id);
    const IdContent content{id_magic, static_cast<std::uint64_t>(getpid()), ++count, std::random_device{}()};
    std::memcpy(id->internal, &content, sizeof content);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return init_rank("ncclCommInitRank", comm, ranks, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return init_rank("ncclCommInitRankConfig", comm, ranks, id, rank, config);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids, ncclUniqueId* list,
                                      ncclConfig_t* config) {
  if (ids < 1 || ids > ranks || !list)
    return fail(nullptr, ncclInvalidArgument,
                format("ncclCommInitRankScalable: %d unique ids for %d ranks", ids, ranks));
  return init_rank("ncclCommInitRankScalable", comm, ranks, list[0], rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return api("ncclCommInitAll", [&](std::string& info) -> ncclResult_t {
    info = format("%d devices", count);
    if (!comms || count < 1)
      return fail(nullptr, ncclInvalidArgument, "ncclCommInitAll: no communicators or no devices");
    std::set<int> seen;
    for (int rank = 0; rank < count; ++rank) {
      const int device = devices ? devices[rank] : rank;
      if (device < 0 || device >= runtime().device_count())
        return fail(nullptr, ncclUnhandledCudaError,
                    format("ncclCommInitAll: there is no device %d", device));
      if (!seen.insert(device).second)
        return fail(nullptr, ncclInvalidUsage,
                    format("ncclCommInitAll: device %d is given twice (duplicate GPU)", device));
    }
    {
      Guard guard;
      auto clique = make_clique(count);
      for (int rank = 0; rank < count; ++rank) {
        auto* comm = new ncclComm;
        comm->rank = rank;
        comm->device = devices ? devices[rank] : rank;
        comm->thread = runtime().thread_number();
        join_clique(clique, comm);
        comms[rank] = comm;
      }
    }
    for (int rank = 0; rank < count; ++rank) announce(comms[rank]);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return api("ncclCommFinalize", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommFinalize", comm, Needs::ready); result != ncclSuccess)
      return result;
    if (comm->finalized || comm->aborted)
      return fail(comm, ncclInvalidArgument, "ncclCommFinalize: it is finalized or revoked");
    if (ncclResult_t result = check_captured("ncclCommFinalize", comm); result != ncclSuccess) return result;
    comm->finalized = true;
    std::vector<Pending> one{drained("ncclCommFinalize", comm)};
    return wait_all(one);
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return api("ncclCommDestroy", [&](std::string& info) -> ncclResult_t {
    if (!comm) return ncclSuccess;
    if (ncclResult_t result = check("ncclCommDestroy", comm, Needs::ready); result != ncclSuccess)
      return result;
    info = comm->name();
    if (ncclResult_t result = check_captured("ncclCommDestroy", comm); result != ncclSuccess) return result;
    if (const std::string window = live_window(*comm); !window.empty())
      return fail(comm, ncclInvalidUsage,
                  "ncclCommDestroy: " + window + " is registered: deregister it first");
    if (!comm->finalized && !comm->aborted) {
      std::vector<Pending> one{drained("ncclCommDestroy", comm)};
      one[0].blocking = true;
      if (ncclResult_t result = wait_all(one); result != ncclSuccess) return result;
    }
    dispose(comm, SharedClique::State::left);
    return ncclSuccess;
  });
}

static void abort_operations(ncclComm_t comm) {
  if (comm->ready)
    for (Pending& one : comm->unfinished) one.cancel();
  Guard guard;
  comm->aborted = true;
  comm->in_progress = nullptr;
  comm->unfinished.clear();
  cancel_operations(*comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return api("ncclCommAbort", [&](std::string& info) -> ncclResult_t {
    if (!comm) return ncclSuccess;
    if (ncclResult_t result = check("ncclCommAbort", comm, Needs::communicator); result != ncclSuccess)
      return result;
    info = comm->name();
    if (ncclResult_t result = check_captured("ncclCommAbort", comm); result != ncclSuccess) return result;
    abort_operations(comm);
    dispose(comm, SharedClique::State::aborted);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return api("ncclCommRevoke", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommRevoke", comm, Needs::communicator); result != ncclSuccess)
      return result;
    if (flags || comm->finalized || comm->aborted)
      return fail(comm, ncclInvalidArgument,
                  "ncclCommRevoke: there are flags, or it is finalized or revoked");
    abort_operations(comm);
    comm->async = ncclSuccess;
    return ncclSuccess;
  });
}

VGPU_ALIAS(ncclGetUniqueId)
VGPU_ALIAS(ncclCommInitRank)
VGPU_ALIAS(ncclCommInitRankConfig)
VGPU_ALIAS(ncclCommInitRankScalable)
VGPU_ALIAS(ncclCommInitAll)
VGPU_ALIAS(ncclCommFinalize)
VGPU_ALIAS(ncclCommDestroy)
VGPU_ALIAS(ncclCommAbort)
VGPU_ALIAS(ncclCommRevoke)
}
