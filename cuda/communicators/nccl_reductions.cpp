#include <optional>

#include <lockstep/error.hpp>

#include "communicators/nccl_communicator.hpp"
#include "device/device_guard.hpp"
#include "graphs/capture.hpp"
#include "libraries/nccl_error.hpp"
#include "libraries/nccl_library.hpp"
#include "native.hpp"

/// The collectives that reduce.
namespace lockstep::cuda {
namespace {

ncclRedOp_t native_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::product: return ncclProd;
    case ReduceOp::min: return ncclMin;
    case ReduceOp::max: return ncclMax;
    case ReduceOp::sum:
    case ReduceOp::mean: break;
  }
  return ncclSum;
}

}  // namespace

// All threads of this process have called before any of them waits for the other processes' calls, which
// keeps no other collective of this process waiting.
void NcclCommunicator::grow_windows(std::string_view operation, std::span<const backend::RankCall> calls,
                                    std::int64_t size_bytes) {
  if (rank_of(calls.front()).window->holds(size_bytes)) return;
  const int num_calls = static_cast<int>(calls.size());
  LaunchOrder::Turn allocation(order_, num_calls);  // which may wait for the GPU
  inside(operation, calls, [&] {
    for (const backend::RankCall& call : calls) rank_of(call).window->allocate(size_bytes);
  });
  allocation.end();
  std::optional<LaunchOrder::Turn> turn;
  if (processes_ == nullptr) turn.emplace(order_, num_calls);
  inside(operation, calls, [&] {
    const CallerDevice caller;
    const OutsideCaptures outside;
    NcclGroup group(rank_of(calls.front()).device->device(), operation);
    for (const backend::RankCall& call : calls) {
      Rank& rank = rank_of(call);
      const ncclResult_t code = rank.window->enlist(rank.communicator);
      if (code != ncclSuccess && code != ncclInProgress)
        throw_nccl_error(code, "ncclCommWindowRegister", {__FILE__, __LINE__, __func__}, rank.communicator,
                         rank.device->device(), operation);
    }
    if (group.end())
      for (const backend::RankCall& call : calls) settle(operation, call);
  });
  if (turn) turn->end();
}

template <class Issue>
void NcclCommunicator::reduce_by(const Reduction& reduction, const backend::GroupCall& collective,
                                 const Issue& issue) {
  const std::span<const backend::RankCall> calls = collective.own;
  require_alive(reduction.operation, calls);
  // However the call ends, its memory is freed in stream order.
  struct UnderWay {
    ~UnderWay() {
      for (const backend::RankCall& call : calls) {
        Rank& rank = self.rank_of(call);
        if (in_window) rank.window->end(call.stream);
        rank.wire.clear();
      }
    }
    NcclCommunicator& self;
    const std::span<const backend::RankCall> calls;
    bool in_window = false;
  } under_way{*this, calls};
  std::int64_t pack_bytes = 0;  // as on all other ranks
  for (const backend::RankCall& call : calls) pack_bytes = rank_of(call).wire.place(reduction, call);
  if (has_windows_ && pack_bytes > 0 && !is_in_capture(calls.front())) {
    grow_windows(reduction.operation, calls, pack_bytes);
    under_way.in_window = true;
  }
  for (const backend::RankCall& call : calls) {
    Rank& rank = rank_of(call);
    rank.wire.encode(call, *rank.device, under_way.in_window ? rank.window->begin(call.stream) : nullptr);
  }
  const bool is_one_call = rank_of(calls.front()).wire.parts().size() == 1;
  group(collective, reduction.native_call, is_one_call, [&](Rank& rank, const backend::RankCall& call) {
    return for_each(rank.wire.parts(), [&](const Wire::Part& part) {
      return issue(part, native_op(reduction.op), rank.communicator, cuda::native(call.stream));
    });
  });
  for (const backend::RankCall& call : calls) rank_of(call).wire.decode();
}

Reduction NcclCommunicator::reduction_of(const backend::GroupCall& collective,
                                         const char* native_call) const {
  return {.operation = collective.operation,
          .native_call = native_call,
          .op = collective.op,
          .scale = scale_,
          .divisor = num_ranks_ * scale_};
}

// @param root  -1: all ranks receive.
void NcclCommunicator::reduce_by_peers(const backend::GroupCall& collective, int root) {
  const std::string_view operation = collective.operation;
  const std::span<const backend::RankCall> calls = collective.own;
  use_in_this_process(rank_of(calls.front()).device->device());
  for (const backend::RankCall& call : calls) peers_->load(call);
  LaunchOrder::Turn turn(order_, static_cast<int>(calls.size()));
  inside(operation, calls, [&] {
    for (const backend::RankCall& call : calls) {
      Rank& rank = rank_of(call);
      rank.capture = capture_of(*rank.device, call.stream);
      if (rank.capture) peers_->keep(call.rank, rank.capture, captured_);
    }
    for (std::size_t s = 0; s < calls.front().segments.size(); ++s)
      for (std::int64_t piece = 0; piece < peers_->num_pieces(calls.front().segments[s]); ++piece)
        for (const backend::RankCall& call : calls) {
          backend::Segment segment = call.segments[s];
          if (root >= 0 && call.rank != root) segment.receive = nullptr;
          peers_->enqueue(collective.op, call, segment, rank_of(call).capture, piece);
        }
  });
  turn.end();
  require_not_aborted(operation, calls.front());
}

void NcclCommunicator::all_reduce(const backend::GroupCall& collective) {
  if (goes_by_peers(collective)) return reduce_by_peers(collective, -1);
  reduce_by(reduction_of(collective, "ncclAllReduce"), collective,
            [](const Wire::Part& part, ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
              return ncclAllReduce(part.send, part.receive, part.count, part.type, op, communicator, stream);
            });
}

void NcclCommunicator::reduce(const backend::GroupCall& collective) {
  if (goes_by_peers(collective)) return reduce_by_peers(collective, collective.root);
  Reduction reduction = reduction_of(collective, "ncclReduce");
  reduction.root = collective.root;
  reduce_by(reduction, collective,
            [root = collective.root](const Wire::Part& part, ncclRedOp_t op, ncclComm_t communicator,
                                     cudaStream_t stream) {
              return ncclReduce(part.send, part.receive, part.count, part.type, op, root, communicator,
                                stream);
            });
}

void NcclCommunicator::reduce_scatter(const backend::GroupCall& collective) {
  Reduction reduction = reduction_of(collective, "ncclReduceScatter");
  reduction.sent_blocks = num_ranks();
  reduce_by(reduction, collective,
            [](const Wire::Part& part, ncclRedOp_t op, ncclComm_t communicator, cudaStream_t stream) {
              return ncclReduceScatter(part.send, part.receive, part.count, part.type, op, communicator,
                                       stream);
            });
}

}  // namespace lockstep::cuda
