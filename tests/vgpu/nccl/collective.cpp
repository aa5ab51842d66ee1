#include "nccl/collective.hpp"

#include <algorithm>
#include <cstring>

namespace vgpu::nccl {

struct Poster {
  std::uint64_t thread = 0;  // 0: not a direct call outside a group
};

class CollectiveUnit final : public Unit {
 public:
  std::shared_ptr<Clique> clique;
  std::uint64_t sequence = 0;
  Signature signature;
  std::vector<Buffers> buffers;
  std::vector<bool> present;
  std::vector<Poster> posters;
  std::vector<std::string> texts;
  bool broken = false;
  std::string broken_text;
  bool published = false;
  std::vector<bool> arrived;             // of other processes
  std::vector<std::vector<char>> parts;  // what they sent

  static std::string file(std::uint64_t number, int rank) {
    return "c" + std::to_string(number) + "." + std::to_string(rank);
  }
  bool ready() override;
  std::string describe() const override {
    return format("%s of %d ranks, communicator %llu, collective #%llu", signature.text().c_str(),
                  clique->ranks, static_cast<unsigned long long>(clique->id),
                  static_cast<unsigned long long>(sequence));
  }
  std::string waiting_for() const override;
  // Whether this process has aborted its part meanwhile.
  bool aborted_here() const {
    Guard guard;
    for (const ncclComm* member : clique->members)
      if (member && member->aborted) return true;
    return false;
  }
  // Who has called what.
  std::string mismatch() const {
    std::string text =
        format("MISMATCHED COLLECTIVE #%llu of communicator %llu:", static_cast<unsigned long long>(sequence),
               static_cast<unsigned long long>(clique->id));
    for (int rank = 0; rank < clique->ranks; ++rank)
      if (!texts[rank].empty()) text += format("\n  rank %d called %s", rank, texts[rank].c_str());
    return text + "\n  NCCL would hang or corrupt data";
  }
  double nanoseconds() const override {
    return 10000 + static_cast<double>(signature.count * type_bytes(signature.type)) / 100;
  }
  void run(RunContext& context) override;
};

// Puts an operation's part into its rank's next collective.
class CollectiveWork final : public RankWork {
 public:
  Signature signature;
  Buffers buffers;

  std::string describe() const override {
    return format("%s as rank %d of communicator %llu", signature.text().c_str(), comm->rank,
                  static_cast<unsigned long long>(comm->clique->id));
  }
  bool is_communication() const override { return true; }
  double nanoseconds() const override { return 0; }

  void bind(const std::shared_ptr<Op>& op) override {
    Clique& clique = *comm->clique;
    remember(*comm, op);
    const std::uint64_t sequence = clique.sequence[comm->rank]++;
    auto& unit = clique.open[sequence];
    if (!unit) {
      unit = std::make_shared<CollectiveUnit>();
      unit->clique = comm->clique;
      unit->sequence = sequence;
      unit->signature = signature;
      unit->expected = clique.remote ? clique.local : clique.ranks;
      unit->buffers.resize(clique.ranks);
      unit->present.resize(clique.ranks);
      unit->posters.resize(clique.ranks);
      unit->texts.resize(clique.ranks);
    }
    std::shared_ptr<CollectiveUnit> mine = unit;
    if (!mine->broken && !(mine->signature == signature)) {
      mine->broken = true;
      mine->texts[comm->rank] = signature.text();
      const std::string text = mine->mismatch();
      mine->broken_text = text;
      fail(comm, ncclInvalidUsage, text);
      set_async(clique, ncclInvalidUsage);
    }
    mine->present[comm->rank] = true;
    mine->texts[comm->rank] = signature.text();
    mine->buffers[comm->rank] = buffers;
    if (direct_call.active && !direct_call.grouped) {
      const std::uint64_t thread = runtime().thread_number();
      for (int rank = 0; rank < clique.ranks; ++rank)
        if (rank != comm->rank && mine->posters[rank].thread == thread) {
          const std::string text = format(
              "UNGROUPED COLLECTIVE: one thread calls %s for ranks %d and %d of communicator %llu outside "
              "ncclGroupStart/ncclGroupEnd;\n"
              "  NCCL may wait for the other ranks inside the first call, which then never come "
              "(VGPU_ALLOW_UNGROUPED=1 lets it pass)",
              kind_name(signature.kind), rank, comm->rank, static_cast<unsigned long long>(clique.id));
          if (allow_ungrouped()) break;
          fail(comm, ncclInvalidUsage, text);
          set_async(clique, ncclInvalidUsage);
          mine->broken = true;
          mine->broken_text = text;
          break;
        }
      mine->posters[comm->rank].thread = thread;
    }
    runtime().join(op, mine);
    if (mine->broken) runtime().poison(mine, cudaErrorLaunchFailure, mine->broken_text);
    if (mine->complete()) clique.open.erase(sequence);
  }
};

std::string CollectiveUnit::waiting_for() const {
  std::vector<int> here, missing, aborted, lost;
  for (int rank = 0; rank < clique->ranks; ++rank) {
    if (present[rank] || (rank < static_cast<int>(arrived.size()) && arrived[rank]))
      here.push_back(rank);
    else if (has_aborted(*clique, rank))
      aborted.push_back(rank);
    else if (clique->remote && clique->lost[rank])
      lost.push_back(rank);
    else
      missing.push_back(rank);
  }
  std::string text = describe() + ": called by ranks " + ranks_text(here);
  if (!missing.empty()) text += ", not called by ranks " + ranks_text(missing);
  if (!aborted.empty()) text += ", aborted on ranks " + ranks_text(aborted);
  if (!lost.empty()) text += ", ended with the processes of ranks " + ranks_text(lost);
  if (missing.empty() && aborted.empty() && lost.empty())
    text += "; some rank's stream has other work before it (see the other streams)";
  return text;
}

// What a rank contributes, in bytes.
std::size_t contribution(const Signature& signature, int ranks, int rank) {
  const std::size_t bytes = signature.count * type_bytes(signature.type);
  switch (signature.kind) {
    case Kind::reduce_scatter:
    case Kind::all_to_all: return bytes * ranks;
    case Kind::broadcast: return rank == signature.root ? bytes : 0;
    case Kind::scatter: return rank == signature.root ? bytes * ranks : 0;
    default: return bytes;
  }
}

bool CollectiveUnit::ready() {
  if (!clique->remote) return true;
  const auto& shared = *clique->shared;
  if (!published) {
    published = true;
    arrived.resize(clique->ranks);
    const std::uint64_t over = shared.finished_by_all();
    for (; clique->cleaned < over; ++clique->cleaned)
      for (int rank = 0; rank < clique->ranks; ++rank)
        if (!clique->away(rank)) shared.remove(file(clique->cleaned, rank));
    for (int rank = 0; rank < clique->ranks; ++rank) {
      if (clique->away(rank)) continue;
      std::vector<char> data(contribution(signature, clique->ranks, rank));
      std::string head = signature.text();
      if (!data.empty() && !runtime().peek(data.data(), buffers[rank].send, data.size()))
        head += " with a buffer that is not there";
      if (signature.op == ncclNumOps) {
        Scalar scalar = buffers[rank].scalar;
        if (scalar.device) runtime().peek(scalar.bytes, scalar.device, type_bytes(signature.type));
        data.insert(data.end(), scalar.bytes, scalar.bytes + 8);
      }
      shared.publish(file(sequence, rank), head, data.data(), data.size());
    }
  }
  bool all = true;
  for (int rank = 0; rank < clique->ranks; ++rank) {
    if (!clique->away(rank) || arrived[rank]) continue;
    if (shared.exists(file(sequence, rank)))
      arrived[rank] = true;
    else
      all = false;
  }
  if (!all) look_for_lost(*clique);
  return all;
}

void CollectiveUnit::run(RunContext& context) {
  const int ranks = clique->ranks;
  bool same = true;
  parts.resize(ranks);
  if (clique->remote)
    for (int rank = 0; rank < ranks; ++rank) {
      if (!clique->away(rank)) continue;
      if (!clique->shared->fetch(file(sequence, rank), texts[rank], parts[rank])) {
        if (aborted_here()) return;  // and the last process has removed the files
        context.fail(cudaErrorUnknown, "a part of the collective from another process is lost");
      }
      same = same && texts[rank] == signature.text();
    }
  if (!same) {
    {
      Guard guard;
      set_async(*clique, ncclInvalidUsage);
    }
    context.fail(cudaErrorLaunchFailure, mismatch());
  }
  if (clique->remote)
    for (int rank = 0; rank < ranks; ++rank) {
      if (!clique->away(rank)) continue;
      if (signature.op == ncclNumOps) {
        std::memcpy(buffers[rank].scalar.bytes, parts[rank].data() + parts[rank].size() - 8, 8);
        parts[rank].resize(parts[rank].size() - 8);
      }
      parts[rank].resize(contribution(signature, ranks, rank));
    }
  const std::size_t size = type_bytes(signature.type);
  const std::size_t bytes = signature.count * size;
  auto read = [&](int rank, std::size_t offset, std::size_t length) -> const char* {
    if (clique->away(rank)) return parts[rank].data() + offset;
    return static_cast<const char*>(context.access(
        buffers[rank].device, static_cast<const char*>(buffers[rank].send) + offset, length, false));
  };
  std::vector<char> nowhere;
  auto write = [&](int rank, std::size_t offset, std::size_t length) -> char* {
    if (clique->away(rank)) {
      nowhere.resize(std::max(nowhere.size(), length));
      return nowhere.data();
    }
    return static_cast<char*>(context.access(
        buffers[rank].device, static_cast<char*>(buffers[rank].receive) + offset, length, true));
  };
  auto reduce = [&](std::size_t offset, std::size_t count, std::vector<char>& result) {
    std::vector<const char*> inputs;
    std::vector<Scalar> scalars;
    for (int rank = 0; rank < ranks; ++rank) {
      inputs.push_back(read(rank, offset, count * size));
      Scalar scalar = buffers[rank].scalar;
      if (scalar.device) {
        std::memcpy(scalar.bytes, context.access(buffers[rank].device, scalar.device, size, false), size);
        scalar.device = nullptr;
      }
      scalars.push_back(scalar);
    }
    result.resize(count * size);
    nccl::reduce(signature.type, signature.op, inputs, scalars, result.data(), count);
  };
  std::vector<char> result;
  switch (signature.kind) {
    case Kind::all_reduce:
      reduce(0, signature.count, result);
      for (int rank = 0; rank < ranks; ++rank) std::memcpy(write(rank, 0, bytes), result.data(), bytes);
      break;
    case Kind::reduce:
      reduce(0, signature.count, result);
      std::memcpy(write(signature.root, 0, bytes), result.data(), bytes);
      break;
    case Kind::broadcast: {
      const char* from = read(signature.root, 0, bytes);
      result.assign(from, from + bytes);
      for (int rank = 0; rank < ranks; ++rank) std::memcpy(write(rank, 0, bytes), result.data(), bytes);
      break;
    }
    case Kind::all_gather:
      result.resize(bytes * ranks);
      for (int rank = 0; rank < ranks; ++rank)
        std::memcpy(result.data() + rank * bytes, read(rank, 0, bytes), bytes);
      for (int rank = 0; rank < ranks; ++rank)
        std::memcpy(write(rank, 0, bytes * ranks), result.data(), bytes * ranks);
      break;
    case Kind::reduce_scatter:
      reduce(0, signature.count * ranks, result);
      for (int rank = 0; rank < ranks; ++rank)
        std::memcpy(write(rank, 0, bytes), result.data() + rank * bytes, bytes);
      break;
    case Kind::all_to_all:
      result.resize(bytes * ranks * ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const char* from = read(rank, 0, bytes * ranks);
        for (int to = 0; to < ranks; ++to)
          std::memcpy(result.data() + (static_cast<std::size_t>(to) * ranks + rank) * bytes,
                      from + to * bytes, bytes);
      }
      for (int rank = 0; rank < ranks; ++rank)
        std::memcpy(write(rank, 0, bytes * ranks),
                    result.data() + static_cast<std::size_t>(rank) * ranks * bytes, bytes * ranks);
      break;
    case Kind::gather:
      result.resize(bytes * ranks);
      for (int rank = 0; rank < ranks; ++rank)
        std::memcpy(result.data() + rank * bytes, read(rank, 0, bytes), bytes);
      std::memcpy(write(signature.root, 0, bytes * ranks), result.data(), bytes * ranks);
      break;
    case Kind::scatter: {
      const char* from = read(signature.root, 0, bytes * ranks);
      result.assign(from, from + bytes * ranks);
      for (int rank = 0; rank < ranks; ++rank)
        std::memcpy(write(rank, 0, bytes), result.data() + rank * bytes, bytes);
      break;
    }
  }
  if (clique->remote) {
    parts.clear();
    clique->finished_early.insert(sequence);
    while (clique->finished_early.erase(clique->finished) > 0) ++clique->finished;
    for (int rank = 0; rank < ranks; ++rank)
      if (!clique->away(rank)) clique->shared->finished(rank, clique->finished);
  }
}

std::shared_ptr<RankWork> collective_work(ncclComm* comm, const Signature& signature,
                                          const Buffers& buffers) {
  auto work = std::make_shared<CollectiveWork>();
  work->comm = comm;
  work->signature = signature;
  work->buffers = buffers;
  return work;
}

}  // namespace vgpu::nccl
