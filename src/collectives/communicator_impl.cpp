#include "collectives/communicator_impl.hpp"

#include <algorithm>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

#include "collectives/short_message.hpp"
#include "collectives/transfers.hpp"
#include "detail/warn.hpp"

namespace lockstep {

using detail::Collective;
using detail::CollectiveCall;

std::vector<std::string> Communicator::Impl::labels(const std::vector<Device>& devices,
                                                    std::string_view member) {
  std::vector<std::string> labels;
  for (const Device& device : devices)
    labels.push_back(detail::concat(member, ' ', labels.size(), " (", device, ")"));
  return labels;
}

namespace {

// An error that comes before anything is enqueued.
bool is_refusal(const std::exception& error) {
  return dynamic_cast<const InvalidArgument*>(&error) != nullptr ||
         dynamic_cast<const Unsupported*>(&error) != nullptr ||
         dynamic_cast<const ContextError*>(&error) != nullptr;
}

// Integer means are computed in floating point.
bool converts(const CollectiveCall& call, const TensorView& input) {
  return call.reduces() && call.op == ReduceOp::mean && is_integer(input.dtype);
}

}  // namespace

// Threads that drive single ranks need no lock: they meet.
std::unique_lock<detail::Mutex> Communicator::Impl::lock_if_all(std::span<const RankBatch> batches) {
  return batches.size() == devices.size() ? std::unique_lock(mutex) : std::unique_lock<detail::Mutex>();
}

void Communicator::Impl::warn_if_without_gpus(const CommunicationOptions& options) {
  if (options.implementation != CommunicationImplementation::nccl || has_warned.load()) return;
  if (devices.front().kind() == DeviceKind::gpu || has_warned.exchange(true)) return;
  detail::warn(detail::concat("CommunicationOptions: nccl is between GPUs, and a communicator of ",
                              devices.size(), ' ', member, "s, the first on ", devices.front(),
                              ", uses shared memory"));
}

void Communicator::Impl::run(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
                             const CommunicationOptions& options, std::span<const int> destinations) {
  warn_if_without_gpus(options);
  const auto lock = lock_if_all(batches);
  run_locked(collective, op, root, batches, options, destinations);
}

void Communicator::Impl::check(Collective collective, ReduceOp op, std::span<const RankBatch> batches,
                               const CommunicationOptions& options) {
  const auto lock = lock_if_all(batches);
  const std::string_view operation = detail::operation_name(collective, op);
  const auto ranks = ranks_of(operation, batches);
  const detail::Rendezvous::Turn turn(rendezvous, ranks, operation);
  meet(turn, collective, op, 0, batches, options, {}, /*only_checks=*/true);
}

void Communicator::Impl::run_all(Collective collective, ReduceOp op, int root,
                                 std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                                 std::span<const StreamRef> streams, const CommunicationOptions& options,
                                 std::span<const int> destinations) {
  const std::string_view operation = detail::operation_name(collective, op);
  const std::size_t n = devices.size();
  const bool one_input = collective == Collective::broadcast || collective == Collective::scatter;
  const bool one_output = collective == Collective::reduce || collective == Collective::gather;
  LOCKSTEP_EXPECTS(
      (one_input || inputs.size() == n) && (one_output || outputs.size() == n) && streams.size() == n,
      InvalidArgument, operation, ": ", inputs.size(), " inputs, ", outputs.size(), " outputs and ",
      streams.size(), " streams for ", n, ' ', member, "s. Pass one of each for each ", member, ".");
  warn_if_without_gpus(options);
  std::lock_guard lock(mutex);
  all_batches.clear();
  for (std::size_t rank = 0; rank < n; ++rank) {
    const bool is_root = static_cast<int>(rank) == root;
    const auto part = [&](std::span<const TensorView> views, bool is_one) {
      if (!is_one) return views.subspan(rank, 1);
      return is_root ? views : std::span<const TensorView>();
    };
    all_batches.push_back(
        {static_cast<int>(rank), streams[rank], part(inputs, one_input), part(outputs, one_output)});
    if (collective != Collective::send_recv) continue;
    const CollectiveCall call{collective, op, root, &all_batches.back(), false, destinations};
    if (!call.sends()) all_batches.back().inputs = {};
    if (!call.receives()) all_batches.back().outputs = {};
  }
  run_locked(collective, op, root, all_batches, options, destinations);
}

detail::RecycledVector<int> Communicator::Impl::ranks_of(std::string_view operation,
                                                         std::span<const RankBatch> batches) const {
  detail::RecycledVector<int> ranks;
  ranks.reserve(batches.size());
  LOCKSTEP_EXPECTS(!batches.empty(), InvalidArgument, operation,
                   ": no rank is named. Pass a batch for each rank that this thread drives.");
  for (const RankBatch& batch : batches) {
    LOCKSTEP_EXPECTS(0 <= batch.rank && batch.rank < num_ranks(), InvalidArgument, operation, ": rank ",
                     batch.rank, " is not one of the ", num_ranks(), " ranks. Pass one from 0 to ",
                     num_ranks() - 1, ".");
    LOCKSTEP_EXPECTS(std::ranges::find(ranks, batch.rank) == ranks.end(), InvalidArgument, operation,
                     " on rank ", batch.rank, ": rank ", batch.rank,
                     " is named twice. Pass one batch for each rank.");
    ranks.push_back(batch.rank);
  }
  return ranks;
}

// Where all ranks' calls meet, and are checked. Returns whether they are short messages, which have arrived.
bool Communicator::Impl::meet(const detail::Rendezvous::Turn& turn, Collective collective, ReduceOp op,
                              int root, std::span<const RankBatch> batches,
                              const CommunicationOptions& options, std::span<const int> destinations,
                              bool only_checks) {
  const std::string_view operation = detail::operation_name(collective, op);
  const CommunicationOptions merged = options.merged_over({});
  Scratch& own = scratch_of(batches.front());
  own.calls.clear();
  own.arrivals.clear();
  for (const RankBatch& batch : batches)
    own.calls.push_back({collective, op, root, &batch, merged.deterministic, destinations, only_checks});
  for (const CollectiveCall& call : own.calls) {
    detail::Arrival& arrival = own.arrivals.emplace_back(detail::Arrival{operation, call.tensors(), &call});
    const auto r = static_cast<std::size_t>(call.batch->rank);
    if (takes_messages && batches.size() < devices.size())
      detail::set_short_message(arrival.message, call, devices[r], *device_backends[r]);
  }
  return rendezvous.meet(
      turn, own.arrivals,
      [this](std::span<const detail::Arrival* const> all) {
        checks.run(all);
        detail::find_transfers(all, transfers);
      },
      merged.timeout);
}

void Communicator::Impl::run_locked(Collective collective, ReduceOp op, int root,
                                    std::span<const RankBatch> batches, const CommunicationOptions& options,
                                    std::span<const int> destinations) {
  const std::string_view operation = detail::operation_name(collective, op);
  const auto ranks = ranks_of(operation, batches);
  const detail::Rendezvous::Turn turn(rendezvous, ranks, operation);
  if (meet(turn, collective, op, root, batches, options, destinations, /*only_checks=*/false))
    return reduce_messages(op, batches);
  // From here on the others count on this thread: if it fails, so must they. Without others nothing is lost
  // before the first call to the backend, nor by what the backend refuses.
  const bool has_others = batches.size() < devices.size();
  bool has_called = false;
  try {
    Scratch& own = scratch_of(batches.front());
    std::vector<Buffer> temporaries;  // freed in stream order
    own.rank_calls.clear();
    for (const CollectiveCall& call : own.calls) {
      make_segments(call, temporaries);
      own.rank_calls.push_back(
          {call.batch->rank, call.batch->stream.handle(), scratch_of(*call.batch).segments});
    }
    // What is left out is empty on all ranks, so that all skip the call or none.
    const CollectiveCall& call = own.calls.front();
    if (call.is_transfers() ? transfers.empty() : own.rank_calls.front().segments.empty()) return;
    has_called = true;
    if (call.reduces() && call.deterministic && !backend->combines_in_rank_order())
      enqueue_in_rank_order(collective, op, root, own.rank_calls);
    else
      enqueue(collective, op, root, own.rank_calls);
  } catch (const std::exception& error) {
    if (has_others || (has_called && !is_refusal(error))) abort(error.what());
    throw;
  }
}

void Communicator::Impl::reduce_messages(ReduceOp op, std::span<const RankBatch> batches) {
  Scratch& own = scratch_of(batches.front());
  own.sources.clear();
  own.destinations.clear();
  for (int rank = 0; rank < num_ranks(); ++rank)
    own.sources.push_back(rendezvous.message(rank, batches.front().rank));
  for (const RankBatch& batch : batches) own.destinations.push_back(batch.outputs.front().data);
  const TensorView& output = batches.front().outputs.front();
  backend->reduce_here(op, output.dtype, output.size(), own.sources, own.destinations);
}

// Integers to be averaged are converted first: by all_reduce into its outputs, else, as not all ranks have an
// output of their input's size, into temporaries.
void Communicator::Impl::make_segments(const CollectiveCall& call, std::vector<Buffer>& temporaries) {
  const RankBatch& batch = *call.batch;
  Scratch& own = scratch_of(batch);
  const std::span<const TensorView> tensors = call.tensors();
  own.segments.clear();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView& tensor = tensors[i];
    void* receive = batch.outputs.empty() ? nullptr : batch.outputs[i].data;
    backend::Segment segment{call.sends() ? tensor.data : nullptr, receive, tensor.size(), tensor.dtype};
    if (call.collective == Collective::reduce_scatter) segment.count /= num_ranks();
    if (converts(call, tensor) && tensor.size() > 0) {
      TensorView converted = tensor;
      converted.dtype = segment.dtype = reduced_dtype(call.op, tensor.dtype);
      converted.strides = tensor.shape.contiguous_strides();
      converted.read_only = false;
      converted.data = receive;
      if (call.collective != Collective::all_reduce) {
        converted.data =
            temporaries.emplace_back(static_cast<std::size_t>(converted.nbytes()), batch.stream).data();
      }
      segment.send = converted.data;
      batch.stream.device_backend().kernels().copy(converted, tensor, batch.stream.handle());
    }
    const bool gathers = call.collective == Collective::all_gather;
    const std::int64_t size = gathers ? batch.outputs[i].size() : tensor.size();
    // Transfers count segments as they are, and leave out what is empty.
    if (size > 0 || call.is_transfers()) own.segments.push_back(segment);
  }
}

void Communicator::Impl::enqueue(Collective collective, ReduceOp op, int root,
                                 std::span<const backend::RankCall> calls) {
  switch (collective) {
    case Collective::all_reduce: return backend->all_reduce(calls, op);
    case Collective::reduce: return backend->reduce(calls, op, root);
    case Collective::broadcast: return backend->broadcast(calls, root);
    case Collective::all_gather: return backend->all_gather(calls);
    case Collective::reduce_scatter: return backend->reduce_scatter(calls, op);
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
    case Collective::send_recv:
      return backend->transfer(detail::operation_name(collective, op), calls, transfers);
  }
}

// Every rank gathers all contributions and combines them alike.
void Communicator::Impl::enqueue_in_rank_order(Collective collective, ReduceOp op, int root,
                                               std::span<const backend::RankCall> calls) {
  const std::int64_t n = num_ranks();
  const std::int64_t sent_blocks = collective == Collective::reduce_scatter ? n : 1;
  const ReduceOp step = op == ReduceOp::mean ? ReduceOp::sum : op;
  const double divisor = op == ReduceOp::mean ? static_cast<double>(n) : 1.0;
  const auto stream_of = [&](const backend::RankCall& call) {
    return StreamRef(*device_backends[static_cast<std::size_t>(call.rank)], call.stream);
  };

  std::vector<Buffer> temporaries;  // freed in stream order
  std::vector<std::vector<backend::Segment>> gathered(calls.size());
  std::vector<backend::RankCall> gathers;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const backend::Segment& segment : calls[i].segments) {
      const std::int64_t count = segment.count * sent_blocks;
      const std::size_t num_bytes = static_cast<std::size_t>(n * count) * size_of(segment.dtype);
      void* const all = temporaries.emplace_back(num_bytes, stream_of(calls[i])).data();
      gathered[i].push_back({segment.send, all, count, segment.dtype});
    }
    gathers.push_back({calls[i].rank, calls[i].stream, gathered[i]});
  }
  backend->all_gather(gathers);

  for (std::size_t i = 0; i < calls.size(); ++i) {
    const backend::RankCall& call = calls[i];
    if (collective == Collective::reduce && call.rank != root) continue;
    const StreamRef stream = stream_of(call);
    const Device device = stream.device();
    for (std::size_t s = 0; s < call.segments.size(); ++s) {
      const auto [send, all, count, dtype] = gathered[i][s];
      void* result = call.segments[s].receive;
      if (sent_blocks > 1)
        result = temporaries.emplace_back(static_cast<std::size_t>(count) * size_of(dtype), stream).data();
      stream.device_backend().kernels().reduce_axis(step, TensorView(result, Shape(count), dtype, device),
                                                    TensorView(all, Shape(n, count), dtype, device),
                                                    {1, n, count}, divisor, stream.handle());
      if (sent_blocks == 1) continue;
      const std::size_t num_bytes = static_cast<std::size_t>(call.segments[s].count) * size_of(dtype);
      const std::byte* const part =
          static_cast<const std::byte*>(result) + static_cast<std::size_t>(call.rank) * num_bytes;
      stream.device_backend().copy(call.segments[s].receive, part, num_bytes, stream.handle());
    }
  }
}

}  // namespace lockstep
