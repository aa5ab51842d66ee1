// Splits and shrinks: communicators made of others.
#include <algorithm>
#include <cstring>

#include "nccl/checks.hpp"
#include "nccl/group.hpp"

namespace vgpu::nccl {
namespace {

// What a rank tells the ranks of other processes.
struct Message {
  int color, key, device;
};

std::string message_file(const std::string& split, int rank) { return split + "." + std::to_string(rank); }

// Reads what the ranks of other processes have said. Says which ranks have yet to call.
std::vector<int> missing_ranks(Clique& clique, const std::string& name) {
  SplitState& state = clique.splits[name];
  std::vector<int> missing;
  for (int rank = 0; rank < clique.ranks; ++rank) {
    SplitState::Entry& entry = state.entries[rank];
    if (entry.posted || !state.expected[rank]) continue;
    std::string head;
    std::vector<char> data;
    Message message{};
    if (!clique.away(rank) || !clique.shared->fetch(message_file(name, rank), head, data) ||
        data.size() != sizeof message) {
      missing.push_back(rank);
      continue;
    }
    std::memcpy(&message, data.data(), sizeof message);
    entry = {message.color, message.key, message.device, true};
  }
  return missing;
}

// The communicator of one color; `members` are ranks of the parent in the child's order.
void make_child(Clique& parent, const std::string& name, int color, const std::vector<int>& members) {
  SplitState& state = parent.splits[name];
  auto child = make_clique(static_cast<int>(members.size()));
  const auto here =
      std::count_if(members.begin(), members.end(), [&](int rank) { return !parent.away(rank); });
  if (here == 0) return;
  if (here < static_cast<long>(members.size()) &&
      !share_clique(*child, parent.shared->key() + "-" + name + "-" + std::to_string(color))) {
    state.error = "there is no shared memory";
    state.result = ncclSystemError;
    return;
  }
  for (std::size_t index = 0; index < members.size(); ++index) {
    SplitState::Entry& entry = state.entries[members[index]];
    if (!entry.parent) continue;
    entry.child->rank = static_cast<int>(index);
    entry.child->device = entry.parent->device;
    entry.child->thread = entry.parent->thread;
    if (child->shared) child->shared->claim(entry.child->rank, entry.child->device);
    join_clique(child, entry.child);
  }
}

// Makes the communicators when all ranks have called, with the lock held.
void advance_split(Clique& clique, const std::string& name) {
  SplitState& state = clique.splits[name];
  if (state.done || !state.error.empty()) return;
  const std::vector<int> missing = missing_ranks(clique, name);
  look_for_lost(clique);
  for (int rank : missing)
    if (clique.shared && clique.lost[rank]) {
      state.error = format("the process of rank %d has ended", rank);
      state.result = ncclRemoteError;
      return;
    }
  if (!missing.empty()) return;
  std::map<int, std::vector<int>> colors;
  for (int rank = 0; rank < clique.ranks; ++rank)
    if (state.expected[rank] && state.entries[rank].color != NCCL_SPLIT_NOCOLOR)
      colors[state.entries[rank].color].push_back(rank);
  for (auto& [color, members] : colors) {
    std::stable_sort(members.begin(), members.end(),
                     [&](int a, int b) { return state.entries[a].key < state.entries[b].key; });
    make_child(clique, name, color, members);
  }
  state.done = true;
  runtime().notify();
}

// Two shrinks wait for each other where each needs a rank that is in the other one: both fail.
void check_conflict(Clique& clique, const std::string& name, int rank) {
  SplitState& mine = clique.splits[name];
  for (auto& [other_name, other] : clique.splits) {
    if (other_name == name || other_name.rfind("shrink", 0) != 0 || other.done || !other.expected[rank] ||
        other.entries[rank].posted)
      continue;
    for (int peer = 0; peer < clique.ranks; ++peer)
      if (other.entries[peer].posted && mine.expected[peer] && !mine.entries[peer].posted)
        mine.error = other.error =
            format("ranks %d and %d give different lists of ranks to exclude", peer, rank);
  }
}

// Whether the child is there on all its ranks, or never will be; with the lock held.
bool child_is_here(Clique& clique, const std::string& name, Clique& child, int color) {
  if (all_here(child)) return true;
  if (!look_for_lost(clique)) return false;
  const SplitState& state = clique.splits[name];
  for (int rank = 0; rank < clique.ranks; ++rank)
    if (clique.lost[rank] && state.expected[rank] && state.entries[rank].color == color) {
      child.error = format("the process of rank %d has ended", rank);
      child.result = ncclRemoteError;
    }
  return all_here(child);
}

// `kind` is the same on all ranks that take part, and no other call's.
ncclResult_t split(const char* call, const std::string& kind, ncclComm* comm, int color, int key,
                   const std::vector<int>& exclude, const ncclConfig_t* config, ncclComm** out) {
  std::shared_ptr<Clique> clique = comm->clique;
  auto* child = new ncclComm;
  child->blocking =
      config && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking != 0 : comm->blocking;
  std::string name;
  {
    Guard guard;
    name = format("%s-%d", kind.c_str(), comm->splits[kind]++);
    SplitState& state = clique->splits[name];
    if (state.entries.empty()) {
      state.entries.resize(clique->ranks);
      state.expected.assign(clique->ranks, true);
      for (int rank : exclude) state.expected[rank] = false;
    }
    state.entries[comm->rank] = {color, key, comm->device, true, comm, child};
    if (!exclude.empty()) check_conflict(*clique, name, comm->rank);
    if (clique->remote) {
      const Message message{color, key, comm->device};
      clique->shared->publish(message_file(name, comm->rank), "", &message, sizeof message);
    }
    advance_split(*clique, name);
    runtime().notify();
  }
  Pending pending;
  pending.comm = comm;
  pending.what = format("%s on %s", call, comm->name().c_str());
  pending.blocking = comm->blocking;
  pending.done = [clique, name, child, color] {
    advance_split(*clique, name);
    const SplitState& state = clique->splits[name];
    if (!state.error.empty()) return true;
    return state.done && (!child->clique || child_is_here(*clique, name, *child->clique, color));
  };
  pending.missing = [clique, name, comm] {
    std::vector<int> here;
    const std::vector<int> missing = missing_ranks(*clique, name);
    for (int rank = 0; rank < clique->ranks; ++rank)
      if (clique->splits[name].entries[rank].posted) here.push_back(rank);
    return "called by ranks " + ranks_text(here) + ", not by ranks " + ranks_text(missing);
  };
  pending.finish = [clique, name, child, out, call] {
    std::string error;
    ncclResult_t result;
    {
      Guard guard;
      const SplitState& state = clique->splits[name];
      error = state.error;
      result = state.result;
      if (error.empty() && child->clique) {
        error = child->clique->error;
        result = child->clique->result;
      }
    }
    if (!error.empty()) return fail(nullptr, result, std::string(call) + ": " + error);
    if (!child->clique) return ncclSuccess;  // of no color
    announce(child);
    *out = child;
    return ncclSuccess;
  };
  pending.cancel = [clique, name, child] {
    Guard guard;
    SplitState& state = clique->splits[name];
    if (!state.done && state.error.empty()) state.error = "it was given up";
    if (child->clique && child->clique->error.empty()) child->clique->error = state.error = "it was given up";
    if (child->clique) all_here(*child->clique);
  };
  if (group.depth > 0) {
    group.pending.push_back(pending);
    return ncclSuccess;
  }
  std::vector<Pending> one{pending};
  return wait_all(one);
}

// Without NCCL_SHRINK_ABORT the communicator may have lost the ranks that are excluded, and nothing else.
ncclResult_t check_shrink(ncclComm* comm, bool abort) {
  Guard guard;
  Clique& clique = *comm->clique;
  if (abort) {
    cancel_operations(*comm);
    return ncclSuccess;
  }
  look_for_lost(clique);
  const bool idle = std::all_of(comm->pending.begin(), comm->pending.end(), op_finished);
  if (comm->async == ncclRemoteError && idle) return ncclSuccess;
  return comm->async;
}

}  // namespace

}  // namespace vgpu::nccl

using namespace vgpu::nccl;

extern "C" {

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  return api("ncclCommSplit", [&](std::string& info) -> ncclResult_t {
    // A revoked communicator may be split.
    const Needs needs = comm && comm->aborted ? Needs::ready : Needs::usable;
    if (ncclResult_t result = check("ncclCommSplit", comm, needs); result != ncclSuccess) return result;
    if (!out || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
      return fail(comm, ncclInvalidArgument, "ncclCommSplit: bad argument");
    info = format("color %d, key %d, %s", color, key, comm->name().c_str());
    *out = nullptr;
    return split("ncclCommSplit", "split", comm, color, key, {}, config, out);
  });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* exclude, int count, ncclComm_t* out, ncclConfig_t* config,
                            int flags) {
  return api("ncclCommShrink", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommShrink", comm, Needs::ready); result != ncclSuccess)
      return result;
    if (!out || !exclude || count < 1 || count >= comm->clique->ranks)
      return fail(comm, ncclInvalidArgument, "ncclCommShrink: bad argument");
    std::vector<int> ranks(exclude, exclude + count);
    std::sort(ranks.begin(), ranks.end());
    if (ranks.front() < 0 || ranks.back() >= comm->clique->ranks ||
        std::adjacent_find(ranks.begin(), ranks.end()) != ranks.end())
      return fail(comm, ncclInvalidArgument,
                  "ncclCommShrink: the list of ranks has others than its own, or one twice");
    if (std::binary_search(ranks.begin(), ranks.end(), comm->rank))
      return fail(comm, ncclInvalidArgument, "ncclCommShrink: called by an excluded rank");
    *out = nullptr;
    if (ncclResult_t result = check_shrink(comm, flags & NCCL_SHRINK_ABORT); result != ncclSuccess)
      return result;
    const std::string kind = format("shrink%zx", std::hash<std::string>{}(ranks_text(ranks)));
    return split("ncclCommShrink", kind, comm, 0, comm->rank, ranks, config, out);
  });
}

VGPU_ALIAS(ncclCommSplit)
VGPU_ALIAS(ncclCommShrink)
}
