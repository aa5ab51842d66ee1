// Splits and shrinks: communicators made of others.
#include <algorithm>
#include <cstring>

#include "nccl/checks.hpp"
#include "nccl/group.hpp"

namespace vgpu::nccl {
namespace {

// A split of a communicator with ranks in other processes: done once every rank's file is there. With the
// lock held.
void split_remote(const std::shared_ptr<Clique>& clique, std::uint64_t sequence, bool shrink) {
  SplitState& state = clique->splits[sequence];
  struct Entry {
    int rank, color, key, device;
  };
  std::vector<Entry> entries;
  const std::vector<int>* exclude = nullptr;
  for (const auto& entry : state.entries)
    if (entry.posted) exclude = &entry.exclude;
  for (int rank = 0; rank < clique->ranks; ++rank) {
    if (exclude && std::find(exclude->begin(), exclude->end(), rank) != exclude->end()) continue;
    std::string head;
    std::vector<char> data;
    if (!clique->shared->fetch(format("s%llu.%d", static_cast<unsigned long long>(sequence), rank), head,
                               data) ||
        data.size() != 3 * sizeof(int))
      return;
    int values[3];
    std::memcpy(values, data.data(), sizeof values);
    entries.push_back({rank, values[0], values[1], values[2]});
  }
  for (int rank = 0; rank < clique->ranks; ++rank)  // all of this process must have called, too
    if (!clique->away(rank) && !state.entries[rank].posted &&
        std::any_of(entries.begin(), entries.end(), [&](const Entry& e) { return e.rank == rank; }))
      return;
  std::map<int, std::vector<Entry>> colors;
  for (const Entry& entry : entries)
    if (shrink || entry.color != NCCL_SPLIT_NOCOLOR) colors[entry.color].push_back(entry);
  for (auto& [color, members] : colors) {
    std::stable_sort(members.begin(), members.end(),
                     [](const Entry& a, const Entry& b) { return a.key < b.key; });
    const int size = static_cast<int>(members.size());
    auto fresh = make_clique(size);
    int local = 0;
    for (const Entry& member : members) local += !clique->away(member.rank);
    if (local == 0) continue;
    if (local < size) {
      fresh->shared = std::make_shared<SharedClique>(
          clique->shared->key() + format("-%llu-%d", static_cast<unsigned long long>(sequence), color), size);
      if (!fresh->shared->usable()) {
        state.error = "no shared memory";
        return;
      }
      fresh->remote = fresh->completed = true;
      fresh->local = local;
      runtime().external(1);
    }
    for (int index = 0; index < size; ++index) {
      if (clique->away(members[index].rank)) continue;
      auto* child = new ncclComm;
      child->rank = index;
      child->device = members[index].device;
      child->clique = fresh;
      child->ready = true;
      fresh->members[index] = child;
      ++fresh->joined;
      if (fresh->shared) fresh->shared->claim(index, child->device);
      *state.entries[members[index].rank].out = child;
    }
  }
  state.done = true;
  runtime().notify();
}

ncclResult_t split(const char* name, ncclComm* comm, int color, int key, const std::vector<int>& exclude,
                   bool shrink, ncclComm** out) {
  std::shared_ptr<Clique> clique = comm->clique;
  std::uint64_t sequence;
  std::string problem;
  {
    Guard guard;
    sequence = comm->splits++;
    SplitState& state = clique->splits[sequence];
    if (state.entries.empty()) {
      state.entries.resize(clique->ranks);
      state.expected = clique->ranks - static_cast<int>(exclude.size());
    }
    SplitState::Entry& entry = state.entries[comm->rank];
    entry = {color, key, out, comm, true, exclude};
    for (const auto& other : state.entries)
      if (other.posted && other.exclude != exclude)
        problem = "the ranks give different lists of ranks to exclude";
    if (!problem.empty()) state.error = problem;
    ++state.posted;
    if (clique->remote) {
      // The ranks of other processes read this; theirs come as files, too.
      std::vector<char> data(3 * sizeof(int));
      const int values[3] = {color, key, comm->device};
      std::memcpy(data.data(), values, sizeof values);
      clique->shared->publish(format("s%llu.%d", static_cast<unsigned long long>(sequence), comm->rank),
                              shrink ? "shrink" : "split", data.data(), data.size());
    } else if (state.posted == state.expected && state.error.empty()) {
      std::map<int, std::vector<const SplitState::Entry*>> colors;
      for (const auto& one : state.entries)
        if (one.posted && (shrink || one.color != NCCL_SPLIT_NOCOLOR)) colors[one.color].push_back(&one);
      for (auto& [shade, members] : colors) {
        std::stable_sort(members.begin(), members.end(), [](auto* a, auto* b) { return a->key < b->key; });
        auto fresh = make_clique(static_cast<int>(members.size()));
        for (std::size_t index = 0; index < members.size(); ++index) {
          auto* child = new ncclComm;
          child->rank = static_cast<int>(index);
          child->device = members[index]->comm->device;
          child->thread = members[index]->comm->thread;
          join_clique(fresh, child);
          *members[index]->out = child;
        }
      }
      state.done = true;
    }
    runtime().notify();
  }
  Pending pending;
  pending.what = format("%s on rank %d of communicator %llu", name, comm->rank,
                        static_cast<unsigned long long>(clique->id));
  pending.blocking = comm->blocking;
  pending.done = [clique, sequence, shrink] {
    SplitState& state = clique->splits[sequence];
    if (clique->remote && !state.done && state.error.empty()) split_remote(clique, sequence, shrink);
    return state.done || !state.error.empty();
  };
  pending.missing = [clique, sequence] {
    std::vector<int> here, missing;
    const SplitState& state = clique->splits[sequence];
    for (int rank = 0; rank < clique->ranks; ++rank)
      (state.entries[rank].posted ? here : missing).push_back(rank);
    return "called by ranks " + ranks_text(here) + ", not by ranks " + ranks_text(missing);
  };
  pending.finish = [clique, sequence, out, name] {
    std::string error;
    {
      Guard guard;
      error = clique->splits[sequence].error;
    }
    if (!error.empty()) return fail(nullptr, ncclInvalidUsage, std::string(name) + ": " + error);
    if (*out) announce(*out);
    return ncclSuccess;
  };
  if (group.depth > 0) {
    group.pending.push_back(pending);
    return ncclSuccess;
  }
  std::vector<Pending> one{pending};
  return wait_all(one);
}

}  // namespace

}  // namespace vgpu::nccl

using namespace vgpu::nccl;

extern "C" {

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  return api("ncclCommSplit", [&](std::string& info) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommSplit", comm); result != ncclSuccess) return result;
    if (!out || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
      return fail(comm, ncclInvalidArgument, "ncclCommSplit: bad argument");
    info = format("color %d, key %d, %s", color, key, comm->name().c_str());
    *out = nullptr;
    return split("ncclCommSplit", comm, color, key, {}, false, out);
  });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* exclude, int count, ncclComm_t* out, ncclConfig_t*,
                            int flags) {
  return api("ncclCommShrink", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommShrink", comm, false); result != ncclSuccess) return result;
    if (!out || !exclude || count < 1 || count >= comm->clique->ranks)
      return fail(comm, ncclInvalidArgument, "ncclCommShrink: bad argument");
    std::vector<int> ranks(exclude, exclude + count);
    std::sort(ranks.begin(), ranks.end());
    if (std::binary_search(ranks.begin(), ranks.end(), comm->rank))
      return fail(comm, ncclInvalidArgument, "ncclCommShrink: called by an excluded rank");
    *out = nullptr;
    if (flags & NCCL_SHRINK_ABORT) {
      Guard guard;
      for (const auto& op : comm->pending)
        if (!runtime().finished(op)) runtime().cancel(op);
      comm->pending.clear();
    }
    return split("ncclCommShrink", comm, 0, comm->rank, ranks, true, out);
  });
}

VGPU_ALIAS(ncclCommSplit)
VGPU_ALIAS(ncclCommShrink)
}
