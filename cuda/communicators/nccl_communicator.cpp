#include "communicators/nccl_communicator.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include <lockstep/error.hpp>

#include "arithmetic/scaled_sum.hpp"
#include "communicators/left_communicators.hpp"
#include "communicators/native_communicators.hpp"
#include "communicators/profiler_range.hpp"
#include "detail/expects.hpp"
#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "libraries/cuda_error.hpp"
#include "libraries/nccl_error.hpp"
#include "libraries/nccl_library.hpp"
#include "native.hpp"

namespace lockstep::cuda {

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks, int first_rank, int num_ranks,
                                   std::span<const ncclComm_t> communicators)
    : first_rank_(first_rank),
      num_ranks_(num_ranks),
      order_(static_cast<int>(ranks.size())),
      captured_(std::make_shared<int>()) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Rank& rank = ranks_.emplace_back();
    rank.device = ranks[i];
    rank.communicator = communicators[i];
    rank.scaled_sums.fill(ncclNumOps);
  }
  const auto n = static_cast<double>(num_ranks_);
  scale_ = 1 / arithmetic::sum_scale(n);
  divisor_ = n * scale_;
}

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks, std::chrono::milliseconds limit,
                                   const CommunicatorConfig& config)
    : NcclCommunicator(
          ranks, 0, static_cast<int>(ranks.size()),
          make_native_communicators(ordinals_of(ranks), ranks.front()->device(), limit, nullptr, config)) {
  peer_bytes_ = PeerReduction::default_bytes(num_ranks_);
  peers_ = PeerReduction::make(ranks, peer_bytes_, no_peers_);
}

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks, const backend::ProcessRanks& all,
                                   std::span<const ncclComm_t> communicators)
    : NcclCommunicator(ranks, all.own_begin(), all.total(), communicators) {
  processes_ = all.group;
  for (Rank& rank : ranks_) rank.last = rank.device->create_event();
}

NcclCommunicator::NcclCommunicator(const std::vector<CudaDevice*>& ranks,
                                   std::span<const ncclComm_t> communicators)
    : NcclCommunicator(ranks, 0, static_cast<int>(ranks.size()), communicators) {
  owns_native_ = false;
  no_peers_ = "the communicator is an engine's";
}

NcclCommunicator::~NcclCommunicator() {
  if (is_fork_of_user()) return;
  const CallerDevice caller;
  for (const Rank& rank : ranks_) {
    if (rank.last != backend::EventHandle()) rank.device->destroy_event(rank.last);
  }
  if (owns_native_) {
    end_communicators(std::move(peers_));
    return;
  }
  for (Rank& rank : ranks_) {
    for (ncclRedOp_t op : rank.scaled_sums) {
      if (op != ncclNumOps) ncclRedOpDestroy(op, rank.communicator);
    }
  }
}

void NcclCommunicator::end_communicators(std::shared_ptr<const void> memory) noexcept {
  LeftCommunicators::Group group{{}, captured_, aborted_, std::move(memory)};
  captured_.reset();
  for (Rank& rank : ranks_) {
    ncclComm_t const communicator = std::exchange(rank.communicator, nullptr);
    if (communicator != nullptr) group.communicators.push_back(communicator);
  }
  LeftCommunicators::instance().end_those_left();
  LeftCommunicators::instance().end(std::move(group));
}

template <class Call>
void NcclCommunicator::inside(std::string_view operation, std::span<const backend::RankCall> calls,
                              const Call& call) {
  struct InUse {
    InUse(NcclCommunicator& communicator, std::span<const backend::RankCall> of)
        : self(communicator), ranks(of) {
      for (const backend::RankCall& rank : ranks) self.rank_of(rank).in_use->lock();
    }
    ~InUse() {
      for (const backend::RankCall& rank : ranks) self.rank_of(rank).in_use->unlock();
    }
    NcclCommunicator& self;
    const std::span<const backend::RankCall> ranks;
  } const in_use(*this, calls);
  require_not_aborted(operation, calls.front());
  try {
    call();
  } catch (const CollectiveError&) {
    require_not_aborted(operation, calls.front());  // an abort is the cause
    throw;
  }
}

bool NcclCommunicator::all_come_out(std::chrono::milliseconds limit) noexcept {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  return std::ranges::all_of(
      ranks_, [&](const Rank& rank) { return std::unique_lock(*rank.in_use, deadline).owns_lock(); });
}

void NcclCommunicator::abort() noexcept {
  if (is_fork_of_user() || aborted_.exchange(true)) return;
  // Before anything is waited for: whoever knows of the loss may make the next communicator meanwhile.
  lose_results();
  order_.abandon();
  if (peers_ != nullptr) peers_->abort();
  if (!owns_native_) return;
  constexpr std::chrono::seconds kPatience{1};
  const CallerDevice caller;
  // Threads leave NCCL by themselves and do not enter it again, except one that waits inside for a rank that
  // will not come. A revocation, which frees nothing, releases it; where NCCL has none, the abort does.
  const bool has_graphs = captured_.use_count() > 1;
  if (has_graphs || !all_come_out(kPatience)) {
    for (const Rank& rank : ranks_) revoke(rank.communicator);
    all_come_out(kPatience);
  }
  if (!has_graphs) end_communicators(nullptr);
}

void NcclCommunicator::lose_results() noexcept {
  const std::shared_ptr<backend::Loss> loss = processes_ == nullptr ? nullptr : processes_->loss();
  if (loss == nullptr) return;
  // Where a thread is inside NCCL, some rank's part is not there yet; of graphs nothing is known.
  bool are_done = captured_.use_count() == 1 && all_come_out(std::chrono::milliseconds(0));
  try {
    are_done = are_done && std::ranges::all_of(
                               ranks_, [](const Rank& rank) { return rank.device->has_passed(rank.last); });
  } catch (const Error&) {  // nor of a device that is lost
    are_done = false;
  }
  if (are_done) return;
  for (const Rank& rank : ranks_) rank.device->lose_results(loss);
}

void NcclCommunicator::require_not_aborted(std::string_view operation, const backend::RankCall& call) {
  LOCKSTEP_EXPECTS(!aborted_, CollectiveAborted, operation, " on rank ", call.rank, " (",
                   rank_of(call).device->device(),
                   "): the communicator was aborted. Make a new Communicator, or strategy.");
}

void NcclCommunicator::settle(std::string_view operation, const backend::RankCall& call) {
  const Rank& rank = rank_of(call);
  const auto gives_up = [this] { return aborted_.load(); };
  require_settled(rank.communicator, gives_up, rank.device->device(), operation);
}

void NcclCommunicator::require_alive(std::string_view operation, std::span<const backend::RankCall> calls) {
  use_in_this_process(rank_of(calls.front()).device->device());
  inside(operation, calls, [&] {
    for (const backend::RankCall& call : calls) settle(operation, call);
  });
}

template <class Issue>
void NcclCommunicator::group(const backend::GroupCall& collective, const char* native_call,
                             const Issue& issue) {
  const std::string_view operation = collective.operation;
  const std::span<const backend::RankCall> calls = collective.own;
  const ProfilerRange range(collective);
  const backend::RankCall& first = calls.front();
  const bool is_captured = is_in_capture(first);
  LaunchOrder::Turn turn(order_, static_cast<int>(calls.size()));
  inside(operation, calls, [&] {
    const CallerDevice caller;
    NcclGroup group(rank_of(first).device->device(), operation);
    for (const backend::RankCall& call : calls) {
      Rank& rank = rank_of(call);
      if (is_captured) keep_with(capture_of(*rank.device, call.stream), captured_, rank.device->device());
      for (std::size_t s = 0; s < call.segments.size(); ++s) {
        if (const ncclResult_t code = issue(rank, call, s); code != ncclSuccess)
          throw_nccl_error(code, native_call, {__FILE__, __LINE__, __func__}, rank.communicator,
                           rank.device->device(), operation);
      }
    }
    group.end();
    for (const backend::RankCall& call : calls) settle(operation, call);
    if (processes_ == nullptr || is_captured) return;
    for (const backend::RankCall& call : calls) {
      const Rank& rank = rank_of(call);
      rank.device->record(rank.last, call.stream);
    }
  });
  turn.end();
  require_not_aborted(operation, first);
}

ncclRedOp_t NcclCommunicator::native(const Reduction& reduction, Rank& rank, const WireSegment& wire) {
  switch (reduction.op) {
    case ReduceOp::sum: return ncclSum;
    case ReduceOp::product: return ncclProd;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::mean: break;
  }
  ncclRedOp_t& op = rank.scaled_sums[static_cast<std::size_t>(wire.dtype)];
  if (op == ncclNumOps) {
    const auto as_float = static_cast<float>(scale_);
    const bf16 as_bf16 = as_float;
    const void* scale = &as_float;
    if (wire.dtype == DType::f64) scale = &scale_;
    if (wire.dtype == DType::bf16) scale = &as_bf16;
    LOCKSTEP_NCCL_CHECK(ncclRedOpCreatePreMulSum(&op, const_cast<void*>(scale), wire.type,
                                                 ncclScalarHostImmediate, rank.communicator),
                        rank.communicator, rank.device->device(), reduction.operation);
  }
  return op;
}

// NCCL makes operators outside of groups only.
void NcclCommunicator::make_operators(const Reduction& reduction, std::span<const backend::RankCall> calls) {
  if (reduction.op != ReduceOp::mean) return;
  inside(reduction.operation, calls, [&] {
    for (const backend::RankCall& call : calls) {
      Rank& rank = rank_of(call);
      for (const WireSegment& wire : rank.wire_segments) native(reduction, rank, wire);
    }
  });
}

template <class Issue>
void NcclCommunicator::reduce_by(const Reduction& reduction, const backend::GroupCall& collective,
                                 const Issue& issue) {
  const std::span<const backend::RankCall> calls = collective.own;
  require_alive(reduction.operation, calls);
  // However the call ends, the segments' memory is freed in stream order.
  struct Carried {
    ~Carried() {
      for (const backend::RankCall& call : calls) self.rank_of(call).wire_segments.clear();
    }
    NcclCommunicator& self;
    const std::span<const backend::RankCall> calls;
  } const carried{*this, calls};
  for (const backend::RankCall& call : calls) {
    Rank& rank = rank_of(call);
    for (const backend::Segment& segment : call.segments) {
      rank.wire_segments.push_back(encode(reduction, call, segment, *rank.device));
    }
  }
  make_operators(reduction, calls);
  group(collective, reduction.native_call, [&](Rank& rank, const backend::RankCall& call, std::size_t s) {
    const WireSegment& wire = rank.wire_segments[s];
    return issue(rank, wire, static_cast<std::size_t>(call.segments[s].count), native(reduction, rank, wire),
                 cuda::native(call.stream));
  });
  for (const backend::RankCall& call : calls) {
    Rank& rank = rank_of(call);
    for (std::size_t s = 0; s < call.segments.size(); ++s)
      decode(reduction, call, call.segments[s], rank.wire_segments[s], divisor_, *rank.device);
  }
}

// @param root  -1: all ranks receive.
void NcclCommunicator::reduce_by_peers(const backend::GroupCall& collective, int root) {
  const std::string_view operation = collective.operation;
  const std::span<const backend::RankCall> calls = collective.own;
  const ProfilerRange range(collective);
  use_in_this_process(rank_of(calls.front()).device->device());
  for (const backend::RankCall& call : calls) peers_->load(call);
  LaunchOrder::Turn turn(order_, static_cast<int>(calls.size()));
  inside(operation, calls, [&] {
    for (const backend::RankCall& call : calls) {
      const CudaDevice& device = *rank_of(call).device;
      const Capture capture = capture_of(device, call.stream);
      if (capture) keep_with(capture, captured_, device.device());
      for (backend::Segment segment : call.segments) {
        if (root >= 0 && call.rank != root) segment.receive = nullptr;
        peers_->enqueue(collective.op, call, segment, capture);
      }
    }
  });
  turn.end();
  require_not_aborted(operation, calls.front());
}

void NcclCommunicator::all_reduce(const backend::GroupCall& collective) {
  if (goes_by_peers(collective)) return reduce_by_peers(collective, -1);
  reduce_by(
      {.operation = collective.operation, .native_call = "ncclAllReduce", .op = collective.op}, collective,
      [](Rank& rank, const WireSegment& wire, std::size_t count, ncclRedOp_t native_op, cudaStream_t stream) {
        return ncclAllReduce(wire.send, wire.receive, count, wire.type, native_op, rank.communicator, stream);
      });
}

void NcclCommunicator::reduce(const backend::GroupCall& collective) {
  const int root = collective.root;
  if (goes_by_peers(collective)) return reduce_by_peers(collective, root);
  reduce_by(
      {.operation = collective.operation, .native_call = "ncclReduce", .op = collective.op, .root = root},
      collective,
      [root](Rank& rank, const WireSegment& wire, std::size_t count, ncclRedOp_t native_op,
             cudaStream_t stream) {
        return ncclReduce(wire.send, wire.receive, count, wire.type, native_op, root, rank.communicator,
                          stream);
      });
}

void NcclCommunicator::reduce_scatter(const backend::GroupCall& collective) {
  reduce_by(
      {.operation = collective.operation,
       .native_call = "ncclReduceScatter",
       .op = collective.op,
       .sent_blocks = num_ranks()},
      collective,
      [](Rank& rank, const WireSegment& wire, std::size_t count, ncclRedOp_t native_op, cudaStream_t stream) {
        return ncclReduceScatter(wire.send, wire.receive, count, wire.type, native_op, rank.communicator,
                                 stream);
      });
}

void NcclCommunicator::broadcast(const backend::GroupCall& collective) {
  require_alive(collective.operation, collective.own);
  group(collective, "ncclBroadcast",
        [root = collective.root](Rank& rank, const backend::RankCall& call, std::size_t s) {
          const backend::Segment& segment = call.segments[s];
          // A root that keeps no copy receives in place.
          void* const receive =
              segment.receive != nullptr ? segment.receive : const_cast<void*>(segment.send);
          const void* const send = segment.send != nullptr ? segment.send : receive;
          return ncclBroadcast(send, receive, static_cast<std::size_t>(bytes_of(segment)), ncclUint8, root,
                               rank.communicator, cuda::native(call.stream));
        });
}

void NcclCommunicator::all_gather(const backend::GroupCall& collective) {
  require_alive(collective.operation, collective.own);
  group(collective, "ncclAllGather or ncclBroadcast",
        [all = collective.calls](Rank& rank, const backend::RankCall& call, std::size_t s) {
          const backend::Segment& own = call.segments[s];
          const cudaStream_t stream = cuda::native(call.stream);
          if (std::ranges::all_of(
                  all, [&](const backend::RankCall& other) { return other.segments[s].count == own.count; }))
            return ncclAllGather(own.send, own.receive, static_cast<std::size_t>(bytes_of(own)), ncclUint8,
                                 rank.communicator, stream);
          auto* receive = static_cast<std::byte*>(own.receive);
          for (const backend::RankCall& root : all) {
            const auto size_bytes = static_cast<std::size_t>(bytes_of(root.segments[s]));
            const void* const send = root.rank == call.rank ? own.send : receive;
            if (size_bytes > 0) {
              const ncclResult_t result =
                  ncclBroadcast(send, receive, size_bytes, ncclUint8, root.rank, rank.communicator, stream);
              if (result != ncclSuccess) return result;
            }
            receive += size_bytes;
          }
          return ncclSuccess;
        });
}

// Both ends go through the transfers in the same order, by which NCCL matches the transfers of two ranks.
void NcclCommunicator::transfer(const backend::GroupCall& collective) {
  require_alive(collective.operation, collective.own);
  group(collective, "ncclSend or ncclRecv",
        [transfers = collective.transfers](Rank& rank, const backend::RankCall& call, std::size_t s) {
          const backend::Segment& segment = call.segments[s];
          const cudaStream_t stream = cuda::native(call.stream);
          for (const auto& [_, source, destination, send_begin, receive_begin, size_bytes] :
               std::ranges::equal_range(transfers, s, {}, &backend::Transfer::segment)) {
            const void* const send = static_cast<const std::byte*>(segment.send) + send_begin;
            void* const receive = static_cast<std::byte*>(segment.receive) + receive_begin;
            const auto count = static_cast<std::size_t>(size_bytes);
            if (source == destination && send == receive) continue;
            if (source == call.rank) {
              const ncclResult_t result =
                  ncclSend(send, count, ncclUint8, destination, rank.communicator, stream);
              if (result != ncclSuccess) return result;
            }
            if (destination == call.rank) {
              const ncclResult_t result =
                  ncclRecv(receive, count, ncclUint8, source, rank.communicator, stream);
              if (result != ncclSuccess) return result;
            }
          }
          return ncclSuccess;
        });
}

}  // namespace lockstep::cuda
