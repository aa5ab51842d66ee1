// NCCL's API over vgpu's scheduler: a collective is one step that all ranks' streams take together.
#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include <nccl.h>
#include <unistd.h>

#include "nccl/arithmetic.hpp"
#include "nccl/processes.hpp"
#include "runtime/runtime.hpp"

using vgpu::rt::CustomWork;
using vgpu::rt::Op;
using vgpu::rt::PointerInfo;
using vgpu::rt::RunContext;
using vgpu::rt::Runtime;
using vgpu::rt::StreamInfo;
using vgpu::rt::Unit;

namespace {

Runtime& rt() {
  static Runtime& runtime = *vgpu_runtime();
  return runtime;
}

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
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

struct Guard {
  Guard() { rt().lock(); }
  ~Guard() { rt().unlock(); }
  Guard(const Guard&) = delete;
};

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
  rt().report("VGPU_FAIL: there is no NCCL result called " + name);
  return ncclSystemError;
}

const char* type_name(int type) {
  static const char* const names[] = {"int8",    "uint8",    "int32",      "uint32",
                                      "int64",   "uint64",   "float16",    "float32",
                                      "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return type >= 0 && type < ncclNumTypes ? names[type] : "?";
}

// ---------------------------------------------------------------- communicators

enum class Kind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all, gather, scatter };

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

struct Signature {
  Kind kind = Kind::all_reduce;
  std::size_t count = 0;
  int type = ncclFloat32;
  int op = -1;  // pre-multiplied sums count as one operation
  int root = -1;
  bool operator==(const Signature&) const = default;
  std::string text() const {
    std::string result = format("%s(count=%zu, %s", kind_name(kind), count, type_name(type));
    if (op >= 0) {
      static const char* const names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};
      result += std::string(", ") + names[std::min(op, 5)];
    }
    if (root >= 0) result += format(", root=%d", root);
    return result + ")";
  }
};

struct RedOp {
  int type = 0;
  bool on_device = false;
  const void* device_scalar = nullptr;
  unsigned char scalar[8] = {};
  bool destroyed = false;
};

struct Clique;
class CollectiveUnit;
class PairUnit;

struct SplitState {
  struct Entry {
    int color = 0, key = 0;
    ncclComm** out = nullptr;
    ncclComm* comm = nullptr;
    bool posted = false;
    std::vector<int> exclude;
  };
  std::vector<Entry> entries;
  int posted = 0, expected = 0;
  bool done = false;
  std::string error;
};

}  // namespace

struct ncclComm {
  static constexpr std::uint64_t alive = 0x76677075636F6D6Dull;
  std::uint64_t magic = alive;
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  std::uint64_t thread = 0;
  bool blocking = true, ready = false, finalized = false, aborted = false;
  ncclResult_t async = ncclSuccess;
  std::string last_error;
  std::vector<std::shared_ptr<Op>> pending;
  std::vector<RedOp> redops;
  std::uint64_t splits = 0;
  std::string name() const;
};

namespace {

struct Clique {
  std::uint64_t id = 0;
  int ranks = 0, joined = 0;
  std::vector<ncclComm*> members;
  std::vector<std::uint64_t> sequence;  // next collective of each rank
  std::map<std::uint64_t, std::shared_ptr<CollectiveUnit>> open;
  struct Channel {
    std::vector<std::shared_ptr<PairUnit>> sends, receives;  // waiting for their other half
  };
  std::map<std::pair<int, int>, Channel> channels;
  std::map<std::uint64_t, SplitState> splits;
  std::string error;
  // With ranks in other processes:
  std::shared_ptr<vgpu::nccl::SharedClique> shared;
  bool remote = false, completed = false;
  int local = 0;  // ranks in this process
  std::map<std::pair<int, int>, std::uint64_t>
      messages;               // numbers point-to-point messages with other processes
  std::uint64_t cleaned = 0;  // collectives whose files are removed
  bool complete() const { return joined == ranks; }
  bool away(int rank) const { return remote && !members[rank]; }
};

std::uint64_t next_clique = 1;

std::mutex last_error_mutex;
std::string last_error_text;

ncclResult_t fail(ncclComm* comm, ncclResult_t result, const std::string& text) {
  rt().report(text);
  std::lock_guard guard(last_error_mutex);
  last_error_text = text;
  if (comm) comm->last_error = text;
  return result;
}

thread_local bool direct_call = false;  // an NCCL call, rather than a graph's launch, puts work on a stream
thread_local bool direct_grouped = false;

bool allow_ungrouped() {
  static const bool allowed = [] {
    const char* value = std::getenv("VGPU_ALLOW_UNGROUPED");
    return value && *value && std::strcmp(value, "0") != 0;
  }();
  return allowed;
}

struct Poster {
  std::uint64_t thread = 0;  // 0: not a direct call outside a group
};

std::string ranks_text(const std::vector<int>& ranks) {
  std::string text = "{";
  for (std::size_t index = 0; index < ranks.size(); ++index)
    text += (index ? "," : "") + std::to_string(ranks[index]);
  return text + "}";
}

bool op_finished(const std::shared_ptr<Op>& op) { return rt().finished(op); }

void remember(ncclComm& comm, const std::shared_ptr<Op>& op) {
  std::erase_if(comm.pending, op_finished);
  comm.pending.push_back(op);
}

// ---------------------------------------------------------------- collectives

struct Buffers {
  int device = 0;
  const void* send = nullptr;
  void* receive = nullptr;
  vgpu::nccl::Scalar scalar;  // for pre-multiplied sums
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
  double nanoseconds() const override {
    return 10000 + static_cast<double>(signature.count * vgpu::nccl::type_bytes(signature.type)) / 100;
  }
  void run(RunContext& context) override;
};

// Puts an operation's part into its rank's next collective.
class CollectiveWork final : public CustomWork {
 public:
  ncclComm* comm = nullptr;
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
      std::string text = format(
          "MISMATCHED COLLECTIVE #%llu of communicator %llu:", static_cast<unsigned long long>(sequence),
          static_cast<unsigned long long>(clique.id));
      for (int rank = 0; rank < clique.ranks; ++rank)
        if (mine->present[rank]) text += format("\n  rank %d called %s", rank, mine->texts[rank].c_str());
      text += format("\n  rank %d called %s\n  NCCL would hang or corrupt data", comm->rank,
                     signature.text().c_str());
      mine->broken_text = text;
      fail(comm, ncclInvalidUsage, text);
      for (ncclComm* member : clique.members)
        if (member) member->async = ncclInvalidUsage;
    }
    mine->present[comm->rank] = true;
    mine->texts[comm->rank] = signature.text();
    mine->buffers[comm->rank] = buffers;
    if (direct_call && !direct_grouped) {
      const std::uint64_t thread = rt().thread_number();
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
          for (ncclComm* member : clique.members)
            if (member) member->async = ncclInvalidUsage;
          mine->broken = true;
          mine->broken_text = text;
          break;
        }
      mine->posters[comm->rank].thread = thread;
    }
    rt().join(op, mine);
    if (mine->broken) rt().poison(mine, cudaErrorLaunchFailure, mine->broken_text);
    if (mine->complete()) clique.open.erase(sequence);
  }
};

std::string CollectiveUnit::waiting_for() const {
  std::vector<int> here, missing, aborted;
  for (int rank = 0; rank < clique->ranks; ++rank) {
    if (present[rank] || (rank < static_cast<int>(arrived.size()) && arrived[rank]))
      here.push_back(rank);
    else if (clique->members[rank] && clique->members[rank]->aborted)
      aborted.push_back(rank);
    else
      missing.push_back(rank);
  }
  std::string text = describe() + ": called by ranks " + ranks_text(here);
  if (!missing.empty()) text += ", not called by ranks " + ranks_text(missing);
  if (!aborted.empty()) text += ", aborted on ranks " + ranks_text(aborted);
  if (missing.empty() && aborted.empty())
    text += "; some rank's stream has other work before it (see the other streams)";
  return text;
}

// What a rank contributes, in bytes.
std::size_t contribution(const Signature& signature, int ranks, int rank) {
  const std::size_t bytes = signature.count * vgpu::nccl::type_bytes(signature.type);
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
      if (!data.empty() && !rt().peek(data.data(), buffers[rank].send, data.size())) data.clear();
      std::string head = signature.text();
      if (signature.op == ncclNumOps) {
        vgpu::nccl::Scalar scalar = buffers[rank].scalar;
        if (scalar.device) rt().peek(scalar.bytes, scalar.device, vgpu::nccl::type_bytes(signature.type));
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
  return all;
}

void CollectiveUnit::run(RunContext& context) {
  const int ranks = clique->ranks;
  parts.resize(ranks);
  if (clique->remote)
    for (int rank = 0; rank < ranks; ++rank) {
      if (!clique->away(rank)) continue;
      std::string head;
      if (!clique->shared->fetch(file(sequence, rank), head, parts[rank]))
        context.fail(cudaErrorUnknown, "a part of the collective from another process is lost");
      if (head != signature.text())
        context.fail(cudaErrorLaunchFailure, format("MISMATCHED COLLECTIVE #%llu of communicator %llu: this "
                                                    "process called %s, rank %d (another process) called %s",
                                                    static_cast<unsigned long long>(sequence),
                                                    static_cast<unsigned long long>(clique->id),
                                                    signature.text().c_str(), rank, head.c_str()));
      if (signature.op == ncclNumOps) {
        std::memcpy(buffers[rank].scalar.bytes, parts[rank].data() + parts[rank].size() - 8, 8);
        parts[rank].resize(parts[rank].size() - 8);
      }
      parts[rank].resize(contribution(signature, ranks, rank));
    }
  const std::size_t size = vgpu::nccl::type_bytes(signature.type);
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
    std::vector<vgpu::nccl::Scalar> scalars;
    for (int rank = 0; rank < ranks; ++rank) {
      inputs.push_back(read(rank, offset, count * size));
      vgpu::nccl::Scalar scalar = buffers[rank].scalar;
      if (scalar.device) {
        std::memcpy(scalar.bytes, context.access(buffers[rank].device, scalar.device, size, false), size);
        scalar.device = nullptr;
      }
      scalars.push_back(scalar);
    }
    result.resize(count * size);
    vgpu::nccl::reduce(signature.type, signature.op, inputs, scalars, result.data(), count);
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
    for (int rank = 0; rank < ranks; ++rank)
      if (!clique->away(rank)) clique->shared->finished(rank, sequence);
  }
}

// ---------------------------------------------------------------- point to point

struct Transfer {
  bool send = false;
  int peer = 0;
  const void* buffer = nullptr;
  std::size_t count = 0;
  int type = 0;
};

class PairUnit final : public Unit {
 public:
  std::shared_ptr<Clique> clique;
  int from = 0, to = 0;
  Transfer send, receive;
  bool have_send = false, have_receive = false;
  std::uint64_t poster = 0;
  bool remote = false, published = false;
  std::uint64_t number = 0;
  std::string file(char kind) const {
    return std::string(1, kind) + std::to_string(from) + "." + std::to_string(to) + "." +
           std::to_string(number);
  }
  std::string head(const Transfer& transfer) const {
    return format("%zu %s", transfer.count, type_name(transfer.type));
  }
  bool ready() override {
    if (!remote) return true;
    if (!published) {
      published = true;
      if (have_send) {
        std::vector<char> data(send.count * vgpu::nccl::type_bytes(send.type));
        if (!data.empty()) rt().peek(data.data(), send.buffer, data.size());
        clique->shared->publish(file('p'), head(send), data.data(), data.size());
      } else {
        clique->shared->publish(file('q'), head(receive), nullptr, 0);
      }
    }
    return clique->shared->exists(file(have_send ? 'q' : 'p'));
  }
  std::string describe() const override {
    const Transfer& known = have_send ? send : receive;
    return format("send of %zu %s from rank %d to rank %d, communicator %llu", known.count,
                  type_name(known.type), from, to, static_cast<unsigned long long>(clique->id));
  }
  std::string waiting_for() const override {
    return describe() + (have_send ? have_receive
                                         ? ": both are called; one is behind other work of its stream"
                                         : format(": rank %d has not called ncclRecv", to)
                                   : format(": rank %d has not called ncclSend", from));
  }
  double nanoseconds() const override {
    return 5000 + static_cast<double>(send.count * vgpu::nccl::type_bytes(send.type)) / 100;
  }
  void run(RunContext& context) override {
    if (remote) {
      std::string theirs;
      std::vector<char> data;
      if (!clique->shared->fetch(file(have_send ? 'q' : 'p'), theirs, data))
        context.fail(cudaErrorUnknown, "a message from another process is lost");
      clique->shared->remove(file(have_send ? 'q' : 'p'));
      const Transfer& mine = have_send ? send : receive;
      if (theirs != head(mine))
        context.fail(cudaErrorLaunchFailure,
                     format("MISMATCHED SEND AND RECEIVE from rank %d to rank %d: one says %s, the other %s",
                            from, to, head(mine).c_str(), theirs.c_str()));
      if (have_receive && !data.empty())
        std::memcpy(context.access(clique->members[to]->device, receive.buffer, data.size(), true),
                    data.data(), data.size());
      return;
    }
    const std::size_t bytes = send.count * vgpu::nccl::type_bytes(send.type);
    const void* source = context.access(clique->members[from]->device, send.buffer, bytes, false);
    std::memmove(context.access(clique->members[to]->device, receive.buffer, bytes, true), source, bytes);
  }
};

class TransferWork final : public CustomWork {
 public:
  ncclComm* comm = nullptr;
  std::vector<Transfer> transfers;

  std::string describe() const override {
    std::string text = format("point-to-point group as rank %d of communicator %llu:", comm->rank,
                              static_cast<unsigned long long>(comm->clique->id));
    for (std::size_t index = 0; index < transfers.size() && index < 4; ++index)
      text += format(" %s %zu %s %s rank %d;", transfers[index].send ? "send" : "receive",
                     transfers[index].count, type_name(transfers[index].type),
                     transfers[index].send ? "to" : "from", transfers[index].peer);
    if (transfers.size() > 4) text += format(" and %zu more", transfers.size() - 4);
    return text;
  }
  bool is_communication() const override { return true; }
  double nanoseconds() const override { return 0; }

  void bind(const std::shared_ptr<Op>& op) override {
    Clique& clique = *comm->clique;
    remember(*comm, op);
    for (const Transfer& transfer : transfers) {
      const int from = transfer.send ? comm->rank : transfer.peer,
                to = transfer.send ? transfer.peer : comm->rank;
      Clique::Channel& channel = clique.channels[{from, to}];
      auto& partners = transfer.send ? channel.receives : channel.sends;
      std::shared_ptr<PairUnit> unit;
      if (clique.away(transfer.peer)) {
        unit = std::make_shared<PairUnit>();
        unit->clique = comm->clique;
        unit->expected = 1;
        unit->from = from;
        unit->to = to;
        unit->remote = true;
        unit->number = clique.messages[{from, to}]++;
        (transfer.send ? unit->send : unit->receive) = transfer;
        (transfer.send ? unit->have_send : unit->have_receive) = true;
        rt().join(op, unit);
        continue;
      }
      if (!partners.empty()) {
        unit = partners.front();
        partners.erase(partners.begin());
      } else {
        unit = std::make_shared<PairUnit>();
        unit->clique = comm->clique;
        unit->expected = 2;
        unit->from = from;
        unit->to = to;
        (transfer.send ? channel.sends : channel.receives).push_back(unit);
      }
      (transfer.send ? unit->send : unit->receive) = transfer;
      (transfer.send ? unit->have_send : unit->have_receive) = true;
      rt().join(op, unit);
      std::string problem;
      if (unit->have_send && unit->have_receive &&
          (unit->send.count != unit->receive.count || unit->send.type != unit->receive.type))
        problem = format(
            "MISMATCHED SEND AND RECEIVE on communicator %llu: rank %d sends %zu %s to rank %d, which "
            "receives %zu %s",
            static_cast<unsigned long long>(clique.id), from, unit->send.count, type_name(unit->send.type),
            to, unit->receive.count, type_name(unit->receive.type));
      if (direct_call && !direct_grouped) {
        const std::uint64_t thread = rt().thread_number();
        if (unit->poster == thread && from != to && !allow_ungrouped())
          problem = format(
              "UNGROUPED SEND AND RECEIVE: one thread calls ncclSend for rank %d and ncclRecv for rank %d of "
              "communicator %llu outside\n"
              "  ncclGroupStart/ncclGroupEnd; NCCL may wait for the peer inside the first call "
              "(VGPU_ALLOW_UNGROUPED=1 lets it pass)",
              from, to, static_cast<unsigned long long>(clique.id));
        unit->poster = thread;
      }
      if (!problem.empty()) {
        fail(comm, ncclInvalidUsage, problem);
        for (int rank : {from, to})
          if (clique.members[rank]) clique.members[rank]->async = ncclInvalidUsage;
        rt().poison(unit, cudaErrorLaunchFailure, problem);
      }
    }
  }
};

// ---------------------------------------------------------------- groups

struct Task {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  bool transfer = false;
  Signature signature;
  Buffers buffers;
  Transfer one;
};

struct Pending {  // initialisations and splits, which wait for other ranks
  std::string what;
  std::function<bool()> done;            // with the lock held
  std::function<ncclResult_t()> finish;  // after it
  std::function<std::string()> missing;
  std::function<void()> cancel = [] {};  // after a failure
  bool blocking = true;
};

struct GroupState {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Task> tasks;
  std::vector<Pending> pending;
};
thread_local GroupState group;

ncclResult_t wait_all(std::vector<Pending>& pending) {
  ncclResult_t result = ncclSuccess;
  for (Pending& one : pending) {
    if (!one.blocking) {
      result = result == ncclSuccess ? ncclInProgress : result;
      continue;
    }
    if (rt().wait(one.done, one.what) != cudaSuccess) {
      std::string missing;
      {
        Guard guard;
        missing = one.missing();
      }
      for (Pending& other : pending) other.cancel();
      return fail(nullptr, ncclInvalidUsage, one.what + ": " + missing);
    }
    const ncclResult_t finished = one.finish();
    if (finished != ncclSuccess) {
      one.cancel();
      result = finished;
    }
  }
  return result;
}

ncclResult_t submit_one(ncclComm* comm, cudaStream_t stream, std::shared_ptr<CustomWork> work, bool grouped) {
  direct_call = true;
  direct_grouped = grouped;
  const cudaError_t error = rt().enqueue(stream, comm->device, std::move(work));
  direct_call = false;
  if (error != cudaSuccess)
    return fail(comm, ncclUnhandledCudaError,
                format("NCCL: putting work on the stream fails: %s", cudaGetErrorName(error)));
  return comm->async;
}

std::shared_ptr<CollectiveWork> collective_work(const Task& task) {
  auto work = std::make_shared<CollectiveWork>();
  work->comm = task.comm;
  work->signature = task.signature;
  work->buffers = task.buffers;
  return work;
}

ncclResult_t submit_tasks(std::vector<Task>& tasks, bool grouped) {
  std::vector<ncclComm*> comms;
  for (const Task& task : tasks)
    if (std::find(comms.begin(), comms.end(), task.comm) == comms.end()) comms.push_back(task.comm);
  ncclResult_t result = ncclSuccess;
  for (ncclComm* comm : comms) {
    // A group that uses several streams acts as if posted on each of them.
    std::vector<cudaStream_t> streams;
    for (const Task& task : tasks)
      if (task.comm == comm && std::find(streams.begin(), streams.end(), task.stream) == streams.end())
        streams.push_back(task.stream);
    for (std::size_t index = 1; index < streams.size(); ++index)
      rt().order(streams[index], comm->device, streams[0], comm->device);
    auto transfers = std::make_shared<TransferWork>();
    transfers->comm = comm;
    for (const Task& task : tasks) {
      if (task.comm != comm) continue;
      if (task.transfer) {
        transfers->transfers.push_back(task.one);
        continue;
      }
      const ncclResult_t one = submit_one(comm, streams[0], collective_work(task), grouped);
      if (one != ncclSuccess) result = one;
    }
    if (!transfers->transfers.empty()) {
      const ncclResult_t one = submit_one(comm, streams[0], transfers, grouped);
      if (one != ncclSuccess) result = one;
    }
    for (std::size_t index = 1; index < streams.size(); ++index)
      rt().order(streams[0], comm->device, streams[index], comm->device);
  }
  return result;
}

ncclResult_t end_group() {
  if (group.depth == 0) return fail(nullptr, ncclInvalidUsage, "ncclGroupEnd: no group is open");
  if (--group.depth > 0) return ncclSuccess;
  GroupState state;
  std::swap(state, group);
  if (state.error != ncclSuccess) {
    if (!state.pending.empty() || !state.tasks.empty())
      rt().report("ncclGroupEnd: a call of the group failed, nothing of it is started");
    for (Pending& one : state.pending) one.cancel();
    return state.error;
  }
  if (!state.pending.empty()) {
    const ncclResult_t result = wait_all(state.pending);
    if (result != ncclSuccess) return result;
  }
  return submit_tasks(state.tasks, true);
}

// ---------------------------------------------------------------- API entry

ncclResult_t begin(const char* name) {
  if (rt().device_count() == 0)
    return fail(nullptr, ncclUnhandledCudaError, std::string(name) + ": there is no device");
  return static_cast<ncclResult_t>(rt().inject(name, result_by_name, ncclSystemError));
}

ncclResult_t finish(const char* name, ncclResult_t result, const std::string& info) {
  if (result != ncclSuccess && result != ncclInProgress && group.depth > 0) group.error = result;
  if (rt().tracing())
    rt().trace(format("thread %llu device %d %s(%s)%s%s",
                      static_cast<unsigned long long>(rt().thread_number()), rt().current_device(), name,
                      info.c_str(), result == ncclSuccess ? "" : " = ",
                      result == ncclSuccess ? "" : result_name(result)));
  return result;
}

template <class Body>
ncclResult_t api(const char* name, Body&& body) {
  std::string info;
  ncclResult_t result = begin(name);
  if (result == ncclSuccess) result = body(info);
  return finish(name, result, info);
}

ncclResult_t check(const char* name, ncclComm* comm, bool usable = true) {
  if (!comm) return fail(nullptr, ncclInvalidArgument, std::string(name) + ": the communicator is NULL");
  if (comm->magic != ncclComm::alive)
    return fail(nullptr, ncclInvalidArgument,
                std::string(name) + ": the communicator was destroyed or is not one");
  if (usable && (!comm->ready || comm->aborted || comm->finalized))
    return fail(comm, ncclInvalidUsage,
                format("%s: the communicator is %s", name,
                       comm->aborted     ? "aborted"
                       : comm->finalized ? "finalized"
                                         : "not initialised yet"));
  if (usable && comm->async != ncclSuccess) return comm->async;
  return ncclSuccess;
}

ncclResult_t check_buffer(const char* name, ncclComm* comm, const char* which, const void* pointer,
                          std::size_t bytes) {
  if (bytes == 0) return ncclSuccess;
  if (!pointer) return fail(comm, ncclInvalidArgument, format("%s: %s is NULL", name, which));
  const PointerInfo info = rt().pointer(pointer);
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

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return x < y + b_bytes && y < x + a_bytes;
}

// `at`: where in the larger buffer the smaller one lies for an operation in place, or npos when there is no
// such form.
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
  if (!rt().stream_info(stream, comm->device, info))
    return fail(comm, ncclInvalidArgument, std::string(name) + ": the stream is not a live one");
  if (info.device != comm->device)
    return fail(comm, ncclInvalidUsage,
                format("%s: the stream belongs to device %d, rank %d uses device %d", name, info.device,
                       comm->rank, comm->device));
  return ncclSuccess;
}

std::string call_info(const ncclComm* comm, const Signature& signature, cudaStream_t stream) {
  if (!rt().tracing()) return {};
  StreamInfo info;
  rt().stream_info(stream, comm->device, info);
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
        rt().unlock();
        const ncclResult_t result = fail(
            comm, ncclInvalidArgument,
            format("%s: operator %d was not created for this communicator and data type, or was destroyed",
                   name, op));
        rt().lock();
        return result;
      }
      const RedOp& redop = comm->redops[index];
      std::memcpy(task.buffers.scalar.bytes, redop.scalar, 8);
      task.buffers.scalar.device = redop.device_scalar;
      task.signature.op = ncclNumOps;
    } else if (op > ncclAvg) {
      return fail(comm, ncclInvalidArgument, format("%s: %d is not a reduction operator", name, op));
    }
    const std::size_t bytes = count * vgpu::nccl::type_bytes(type), all = bytes * ranks;
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
    if (ncclResult_t result = check_buffer(name, comm, send ? "sendbuff" : "recvbuff", buffer,
                                           count * vgpu::nccl::type_bytes(type));
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

// ---------------------------------------------------------------- initialisation

struct IdContent {
  std::uint64_t magic, process, number, random;
};
constexpr std::uint64_t id_magic = 0x5647505549443031ull;

std::map<std::string, std::shared_ptr<Clique>>& cliques_by_id() {
  static auto* map = new std::map<std::string, std::shared_ptr<Clique>>;
  return *map;
}

void announce(ncclComm* comm) {
  rt().object_created(
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
  rt().notify();
  return {};
}

// With the lock held: whether all ranks are there, in this process or in others.
bool all_here(Clique& clique) {
  if (clique.completed) return true;
  if (!clique.error.empty()) {
    if (clique.shared) {
      clique.shared->unlink();
      clique.shared.reset();
      rt().external(-1);
    }
    return true;
  }
  if (!clique.shared) return clique.complete();
  if (!clique.complete() && !clique.shared->all_joined()) return false;
  clique.completed = true;
  if (clique.complete()) {
    clique.shared->unlink();
    clique.shared.reset();
    rt().external(-1);
    return true;
  }
  clique.remote = true;  // and counts as external until it ends
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
      blocking = config->blocking != 0;
    }
    IdContent content;
    std::memcpy(&content, id.internal, sizeof content);
    if (content.magic != id_magic)
      return fail(nullptr, ncclInvalidArgument,
                  std::string(name) + ": the unique id is not from ncclGetUniqueId");
    auto* comm = new ncclComm;
    comm->rank = rank;
    comm->device = rt().current_device();
    comm->thread = rt().thread_number();
    comm->blocking = blocking;
    std::string problem;
    std::shared_ptr<Clique> clique;
    {
      Guard guard;
      auto& slot = cliques_by_id()[std::string(id.internal, sizeof id.internal)];
      if (!slot) {
        slot = make_clique(ranks);
        // Others may come from other processes, unless all are initialised here at once.
        if (ranks > 1 && ranks <= vgpu::nccl::SharedClique::max_ranks) {
          slot->shared = std::make_shared<vgpu::nccl::SharedClique>(
              format("%llu-%llu-%llx", static_cast<unsigned long long>(content.process),
                     static_cast<unsigned long long>(content.number),
                     static_cast<unsigned long long>(content.random)),
              ranks);
          if (slot->shared->usable())
            rt().external(1);
          else
            slot->shared.reset();
        }
      }
      clique = slot;
      if (clique->ranks == ranks && clique->shared && !clique->members[rank]) {
        if (clique->shared->ranks() != ranks)
          problem = format("%d ranks, but another process said %d", ranks, clique->shared->ranks());
        else if (!clique->shared->claim(rank, rt().current_device()))
          problem = format("rank %d has joined from another process", rank);
      }
      if (!problem.empty()) {
      } else if (clique->ranks != ranks)
        problem = format("%d ranks, but another rank said %d", ranks, clique->ranks);
      else
        problem = join_clique(clique, comm);
      if (!problem.empty()) clique->error = problem;
      if (!problem.empty()) rt().notify();
    }
    if (!problem.empty()) {
      delete comm;
      return fail(nullptr, ncclInvalidUsage, format("%s: rank %d: %s", name, rank, problem.c_str()));
    }
    announce(comm);
    *out = comm;
    Pending pending;
    pending.what = format("%s of rank %d of %d (communicator %llu)", name, rank, ranks,
                          static_cast<unsigned long long>(clique->id));
    pending.blocking = blocking;
    pending.done = [clique] { return all_here(*clique); };
    pending.missing = [clique] { return missing_ranks(*clique); };
    pending.finish = [clique, name] {
      return clique->error.empty()
                 ? ncclSuccess
                 : fail(nullptr, ncclInvalidUsage, format("%s: %s", name, clique->error.c_str()));
    };
    pending.cancel = [out, comm, clique] {
      {
        Guard guard;
        if (clique->error.empty()) clique->error = "the initialisation was given up";
        all_here(*clique);
      }
      *out = nullptr;
      rt().object_destroyed("communicator", comm);
    };
    if (group.depth > 0) {
      group.pending.push_back(pending);
      return ncclSuccess;
    }
    std::vector<Pending> one{pending};
    return wait_all(one);
  });
}

// ---------------------------------------------------------------- split and shrink

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
      fresh->shared = std::make_shared<vgpu::nccl::SharedClique>(
          clique->shared->key() + format("-%llu-%d", static_cast<unsigned long long>(sequence), color), size);
      if (!fresh->shared->usable()) {
        state.error = "no shared memory";
        return;
      }
      fresh->remote = fresh->completed = true;
      fresh->local = local;
      rt().external(1);
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
  rt().notify();
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
    rt().notify();
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

ncclResult_t drain(const char* name, ncclComm* comm) {
  const cudaError_t error =
      rt().wait([comm] { return std::all_of(comm->pending.begin(), comm->pending.end(), op_finished); },
                format("%s of rank %d of communicator %llu", name, comm->rank,
                       static_cast<unsigned long long>(comm->clique->id)));
  if (error != cudaSuccess)
    return fail(comm, ncclSystemError, format("%s: operations of rank %d do not end", name, comm->rank));
  return ncclSuccess;
}

void dispose(ncclComm* comm) {
  {
    Guard guard;
    Clique& clique = *comm->clique;
    comm->magic = 0;  // the object stays: stale handles are told from live ones
    if (clique.remote) {
      clique.shared->leave();
      if (--clique.local == 0) rt().external(-1);
    }
  }
  rt().object_destroyed("communicator", comm);
}

}  // namespace

std::string ncclComm::name() const {
  return format("rank %d of communicator %llu", rank, static_cast<unsigned long long>(clique->id));
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

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
  if (ids < 1 || ids > ranks || !list) return ncclInvalidArgument;
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
      if (device < 0 || device >= rt().device_count())
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
        comm->thread = rt().thread_number();
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
    if (ncclResult_t result = check("ncclCommFinalize", comm, false); result != ncclSuccess) return result;
    if (comm->finalized) return fail(comm, ncclInvalidArgument, "ncclCommFinalize: called twice");
    if (ncclResult_t result = drain("ncclCommFinalize", comm); result != ncclSuccess) return result;
    comm->finalized = true;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return api("ncclCommDestroy", [&](std::string& info) -> ncclResult_t {
    if (!comm) return ncclSuccess;
    if (ncclResult_t result = check("ncclCommDestroy", comm, false); result != ncclSuccess) return result;
    info = comm->name();
    if (!comm->finalized && !comm->aborted)
      if (ncclResult_t result = drain("ncclCommDestroy", comm); result != ncclSuccess) return result;
    dispose(comm);
    return ncclSuccess;
  });
}

static void abort_operations(ncclComm_t comm) {
  Guard guard;
  comm->aborted = true;
  for (const auto& op : comm->pending)
    if (!rt().finished(op)) rt().cancel(op);
  comm->pending.clear();
  rt().notify();
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return api("ncclCommAbort", [&](std::string& info) -> ncclResult_t {
    if (!comm) return ncclSuccess;
    if (ncclResult_t result = check("ncclCommAbort", comm, false); result != ncclSuccess) return result;
    info = comm->name();
    abort_operations(comm);
    dispose(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return api("ncclCommRevoke", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommRevoke", comm, false); result != ncclSuccess) return result;
    if (flags) return ncclInvalidArgument;
    abort_operations(comm);
    return ncclSuccess;
  });
}

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
        if (!rt().finished(op)) rt().cancel(op);
      comm->pending.clear();
    }
    return split("ncclCommShrink", comm, 0, comm->rank, ranks, true, out);
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (ncclResult_t result = check("ncclCommCount", comm, false); result != ncclSuccess) return result;
  if (!count) return ncclInvalidArgument;
  *count = comm->clique->ranks;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (ncclResult_t result = check("ncclCommCuDevice", comm, false); result != ncclSuccess) return result;
  if (!device) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (ncclResult_t result = check("ncclCommUserRank", comm, false); result != ncclSuccess) return result;
  if (!rank) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return api("ncclCommGetAsyncError", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommGetAsyncError", comm, false); result != ncclSuccess)
      return result;
    if (!error) return ncclInvalidArgument;
    if (!comm->ready) rt().poke();
    Guard guard;
    all_here(*comm->clique);
    if (comm->async != ncclSuccess)
      *error = comm->async;
    else if (!comm->clique->error.empty())
      *error = ncclInvalidUsage;
    else if (!comm->ready)
      *error = ncclInProgress;
    else if (rt().sticky(comm->device) != cudaSuccess)
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

ncclResult_t ncclGroupStart() {
  return api("ncclGroupStart", [&](std::string&) -> ncclResult_t {
    ++group.depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return api("ncclGroupEnd", [&](std::string&) -> ncclResult_t { return end_group(); });
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (group.depth == 0) return ncclInvalidUsage;
  if (info) info->estimatedTime = static_cast<float>(10 * group.tasks.size());
  if (--group.depth == 0) group = {};
  return ncclSuccess;
}

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
      std::memcpy(redop.scalar, scalar, vgpu::nccl::type_bytes(type));
    } else {
      if (ncclResult_t result =
              check_buffer("ncclRedOpCreatePreMulSum", comm, "scalar", scalar, vgpu::nccl::type_bytes(type));
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
    if (ncclResult_t result = check("ncclRedOpDestroy", comm, false); result != ncclSuccess) return result;
    const int index = static_cast<int>(op) - static_cast<int>(ncclNumOps);
    if (index < 0 || index >= static_cast<int>(comm->redops.size()) || comm->redops[index].destroyed)
      return fail(comm, ncclInvalidArgument, "ncclRedOpDestroy: not an operator of this communicator");
    comm->redops[index].destroyed = true;
    return ncclSuccess;
  });
}

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return api("ncclMemAlloc", [&](std::string&) -> ncclResult_t {
    if (!pointer) return ncclInvalidArgument;
    return cudaMalloc(pointer, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  });
}
ncclResult_t ncclMemFree(void* pointer) {
  return api("ncclMemFree", [&](std::string&) -> ncclResult_t {
    return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  });
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return api("ncclCommRegister", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommRegister", comm); result != ncclSuccess) return result;
    if (ncclResult_t result = check_buffer("ncclCommRegister", comm, "buffer", buffer, bytes);
        result != ncclSuccess)
      return result;
    if (handle) *handle = buffer;
    return ncclSuccess;
  });
}
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return check("ncclCommDeregister", comm, false);
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* window, int) {
  return api("ncclCommWindowRegister", [&](std::string&) -> ncclResult_t {
    if (ncclResult_t result = check("ncclCommWindowRegister", comm); result != ncclSuccess) return result;
    if (ncclResult_t result = check_buffer("ncclCommWindowRegister", comm, "buffer", buffer, bytes);
        result != ncclSuccess)
      return result;
    if (window) *window = reinterpret_cast<ncclWindow_t>(buffer);
    return ncclSuccess;
  });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  return check("ncclCommWindowDeregister", comm, false);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
void ncclResetDebugInit() {}
void pncclResetDebugInit() {}
#pragma GCC diagnostic pop

#define VGPU_ALIAS(name) extern __typeof(name) p##name __attribute__((alias(#name)));
VGPU_ALIAS(ncclGetVersion)
VGPU_ALIAS(ncclGetUniqueId)
VGPU_ALIAS(ncclCommInitRank)
VGPU_ALIAS(ncclCommInitRankConfig)
VGPU_ALIAS(ncclCommInitRankScalable)
VGPU_ALIAS(ncclCommInitAll)
VGPU_ALIAS(ncclCommFinalize)
VGPU_ALIAS(ncclCommDestroy)
VGPU_ALIAS(ncclCommAbort)
VGPU_ALIAS(ncclCommRevoke)
VGPU_ALIAS(ncclCommSplit)
VGPU_ALIAS(ncclCommShrink)
VGPU_ALIAS(ncclCommCount)
VGPU_ALIAS(ncclCommCuDevice)
VGPU_ALIAS(ncclCommUserRank)
VGPU_ALIAS(ncclCommGetAsyncError)
VGPU_ALIAS(ncclGetErrorString)
VGPU_ALIAS(ncclGetLastError)
VGPU_ALIAS(ncclGroupStart)
VGPU_ALIAS(ncclGroupEnd)
VGPU_ALIAS(ncclGroupSimulateEnd)
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
VGPU_ALIAS(ncclMemAlloc)
VGPU_ALIAS(ncclMemFree)
VGPU_ALIAS(ncclCommRegister)
VGPU_ALIAS(ncclCommDeregister)
VGPU_ALIAS(ncclCommWindowRegister)
VGPU_ALIAS(ncclCommWindowDeregister)
}
