#include "collectives/communicator_impl.hpp"

#include <algorithm>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>

#include "collectives/fingerprint.hpp"
#include "collectives/transfers.hpp"
#include "detail/expects.hpp"
#include "detail/warn.hpp"

namespace lockstep {

std::vector<std::string> Communicator::Impl::labels(const std::vector<Device>& devices,
                                                    std::string_view member, int first_rank,
                                                    int num_local_ranks) {
  std::vector<std::string> labels;
  for (int rank = first_rank; rank < first_rank + num_local_ranks; ++rank)
    labels.push_back(detail::concat(member, ' ', rank, " (", devices[static_cast<std::size_t>(rank)], ")"));
  return labels;
}

namespace {

// Whether the error comes before anything is enqueued.
bool is_refusal(const std::exception& error) {
  return dynamic_cast<const InvalidArgument*>(&error) != nullptr ||
         dynamic_cast<const Unsupported*>(&error) != nullptr ||
         dynamic_cast<const ContextError*>(&error) != nullptr ||
         dynamic_cast<const NotFound*>(&error) != nullptr;
}

// "label: operation", if it is to be told to anyone.
std::string_view heard_name(std::string_view operation, std::string_view label) {
  if (label.empty() || !detail::Span::is_anyone_listening()) return operation;
  return detail::lasting_name(detail::concat(label, ": ", operation));
}

// The size of the inputs, if it is to be told to anyone.
std::uint64_t heard_bytes(std::span<const RankBatch> batches) {
  std::uint64_t bytes = 0;
  if (!detail::Span::is_anyone_listening()) return bytes;
  for (const RankBatch& batch : batches)
    for (const TensorView& input : batch.inputs) bytes += static_cast<std::uint64_t>(input.nbytes());
  return bytes;
}

}  // namespace

// Threads that drive single ranks need no lock, as they meet.
std::unique_lock<detail::Mutex> Communicator::Impl::lock_if_all(std::span<const RankBatch> batches) {
  return batches.size() == num_local_ranks() ? std::unique_lock(mutex) : std::unique_lock<detail::Mutex>();
}

void Communicator::Impl::warn_if_without_gpus(const CommunicationOptions& options) {
  const bool is_peer = options.implementation == CommunicationImplementation::peer;
  if (!is_peer && options.implementation != CommunicationImplementation::nccl) return;
  if (devices.front().kind() == DeviceKind::gpu || has_warned.load() || has_warned.exchange(true)) return;
  detail::warn(detail::concat("CommunicationOptions: ", is_peer ? "peer" : "nccl",
                              " is between GPUs, and a communicator of ", devices.size(), ' ', member,
                              "s, the first on ", devices.front(), ", uses shared memory"));
}

void Communicator::Impl::run(Collective collective, ReduceOp op, int root, std::span<const RankBatch> batches,
                             const CommunicationOptions& options, std::span<const int> destinations) {
  warn_if_without_gpus(options);
  const auto lock = lock_if_all(batches);
  or_lost(detail::operation_name(collective, op),
          [&] { run_locked(collective, op, root, batches, options, destinations); });
}

void Communicator::Impl::check(Collective collective, ReduceOp op, std::span<const RankBatch> batches,
                               const CommunicationOptions& options) {
  const auto lock = lock_if_all(batches);
  const std::string_view operation = detail::operation_name(collective, op);
  const auto ranks = ranks_of(operation, batches);
  const CommunicationOptions merged = options.merged_over({});
  const detail::Rendezvous::RankLock rank_lock(rendezvous, ranks, operation);
  const Scratch& own = make_calls(collective, op, 0, batches, merged, {}, /*only_checks=*/true);
  rendezvous.meet(
      rank_lock, own.arrivals,
      [&](std::span<const detail::Arrival* const> all) {
        if (workers)
          meet_workers(all, merged.timeout);
        else
          checks.run(all);
      },
      merged.timeout);
}

void Communicator::Impl::run_all(Collective collective, ReduceOp op, int root,
                                 std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                                 std::span<const StreamRef> streams, const CommunicationOptions& options,
                                 std::span<const int> destinations) {
  const std::string_view operation = detail::operation_name(collective, op);
  const std::size_t n = num_local_ranks();
  const bool one_input = collective == Collective::broadcast || collective == Collective::scatter;
  const bool one_output = collective == Collective::reduce || collective == Collective::gather;
  LOCKSTEP_EXPECTS(
      (one_input || inputs.size() == n) && (one_output || outputs.size() == n) && streams.size() == n,
      InvalidArgument, operation, ": ", inputs.size(), " inputs, ", outputs.size(), " outputs and ",
      streams.size(), " streams for ", n, ' ', member, "s. Pass one of each for each ", member, ".");
  warn_if_without_gpus(options);
  std::lock_guard lock(mutex);
  all_batches.clear();
  for (std::size_t i = 0; i < n; ++i) {
    const int rank = first_rank + static_cast<int>(i);
    const bool is_root = rank == root;
    const auto part = [&](std::span<const TensorView> views, bool is_one) {
      if (!is_one) return views.subspan(i, 1);
      return is_root ? views : std::span<const TensorView>();
    };
    all_batches.push_back({rank, streams[i], part(inputs, one_input), part(outputs, one_output)});
    if (collective != Collective::send_recv) continue;
    const CollectiveCall call{collective, op, root, &all_batches.back(), {}, destinations};
    if (!call.sends()) all_batches.back().inputs = {};
    if (!call.receives()) all_batches.back().outputs = {};
  }
  or_lost(operation, [&] { run_locked(collective, op, root, all_batches, options, destinations); });
}

detail::RecycledVector<int> Communicator::Impl::ranks_of(std::string_view operation,
                                                         std::span<const RankBatch> batches) const {
  detail::RecycledVector<int> ranks;
  ranks.reserve(batches.size());
  LOCKSTEP_EXPECTS(!batches.empty(), InvalidArgument, operation,
                   ": no rank is named. Pass a batch for each rank that this thread drives.");
  for (const RankBatch& batch : batches) {
    const int last_rank = first_rank + static_cast<int>(num_local_ranks()) - 1;
    LOCKSTEP_EXPECTS(first_rank <= batch.rank && batch.rank <= last_rank, InvalidArgument, operation,
                     ": rank ", batch.rank, " is not one of the ", num_local_ranks(),
                     " ranks. Pass one from ", first_rank, " to ", last_rank, ".");
    const int index = static_cast<int>(local(batch.rank));
    LOCKSTEP_EXPECTS(std::ranges::find(ranks, index) == ranks.end(), InvalidArgument, operation, " on rank ",
                     batch.rank, ": rank ", batch.rank, " is named twice. Pass one batch for each rank.");
    ranks.push_back(index);
  }
  return ranks;
}

Communicator::Impl::Scratch& Communicator::Impl::make_calls(Collective collective, ReduceOp op, int root,
                                                            std::span<const RankBatch> batches,
                                                            const CommunicationOptions& merged,
                                                            std::span<const int> destinations,
                                                            bool only_checks) {
  const std::string_view operation = detail::operation_name(collective, op);
  const bool has_others = batches.size() < num_local_ranks();
  Scratch& own = scratch_of(batches.front());
  own.calls.clear();
  own.arrivals.clear();
  for (const RankBatch& batch : batches)
    own.calls.push_back({collective, op, root, &batch, route_of(merged), destinations, only_checks});
  for (const CollectiveCall& call : own.calls) {
    detail::Arrival& arrival = own.arrivals.emplace_back(detail::Arrival{.operation = operation,
                                                                         .tensors = call.tensors(),
                                                                         .payload = &call,
                                                                         .label = merged.label,
                                                                         .enqueues = watch && !only_checks});
    if (!takes_fingerprints) continue;
    const auto r = static_cast<std::size_t>(call.batch->rank);
    arrival.fingerprint = detail::fingerprint_of(call, devices[r], *device_backends[r]);
    arrival.copies_input = comes_with_meeting(static_cast<std::int64_t>(arrival.fingerprint.size_bytes),
                                              /*one_thread=*/!has_others);
  }
  return own;
}

void Communicator::Impl::describe(detail::Span& span, Collective collective, ReduceOp op,
                                  std::span<const RankBatch> batches, const CommunicationOptions& merged) {
  span.set_call(rendezvous.next_call_id(static_cast<int>(local(batches.front().rank))));
  const std::span<const TensorView> inputs = batches.front().inputs;
  if (collective != Collective::all_reduce || inputs.size() != 1 || is_boolean(inputs.front().dtype)) return;
  const bool one_thread = batches.size() == num_local_ranks();
  span.set_path(to_string(plan(op, inputs, route_of(merged), one_thread).path).data());
}

void Communicator::Impl::run_locked(Collective collective, ReduceOp op, int root,
                                    std::span<const RankBatch> batches, const CommunicationOptions& options,
                                    std::span<const int> destinations) {
  const std::string_view operation = detail::operation_name(collective, op);
  const CommunicationOptions merged = options.merged_over({});
  const auto ranks = ranks_of(operation, batches);
  if (merged.implementation == CommunicationImplementation::peer &&
      (collective == Collective::all_reduce || collective == Collective::reduce))
    plan_of_one(op, DType::f32, route_of(merged));  // throws where there is no peer memory
  const detail::Rendezvous::RankLock rank_lock(rendezvous, ranks, operation);
  const int rank = batches.size() == 1 ? batches.front().rank : -1;
  detail::Span span(detail::SpanKind::collective, heard_name(operation, merged.label), rank,
                    heard_bytes(batches));
  if (span.is_heard()) describe(span, collective, op, batches, merged);
  Scratch& own = make_calls(collective, op, root, batches, merged, destinations, /*only_checks=*/false);
  const auto meet_and_start = [&](std::span<const detail::Arrival* const> local_ranks) {
    std::span<const detail::Arrival* const> all = local_ranks;
    reduced_with_workers = workers && meet_workers(local_ranks, merged.timeout);
    if (reduced_with_workers) return;
    if (workers)
      all = workers->arrivals();
    else
      checks.run(all);
    group.set(all);
    if (is_in_rank_order(detail::call_of(all.front()))) set_gathered(all);
    if (!one_enqueues) return;
    own.driven.clear();
    for (const detail::Arrival* const arrival : local_ranks) own.driven.push_back(&detail::call_of(arrival));
    start(rank_lock, own.driven, group, merged.timeout);
  };
  const auto check = [&](std::span<const detail::Arrival* const> local_ranks) {
    try {
      meet_and_start(local_ranks);
    } catch (const std::exception& error) {
      // Other workers may have met, and wait for what this one moves. What they throw, too, ends nothing.
      const bool is_own = !is_refusal(error) && dynamic_cast<const CollectiveError*>(&error) == nullptr;
      if (workers && is_own) abort(error.what());
      throw;
    }
  };
  const bool agree = rendezvous.meet(rank_lock, own.arrivals, check, merged.timeout);
  if (collective == Collective::all_reduce) log_plan(op, batches, merged);
  if (!agree && (one_enqueues || reduced_with_workers)) return;
  if (agree && own.arrivals.front().copies_input) return reduce_messages(op, batches);
  // The other threads depend on this one: if it fails, they must fail, too.
  try {
    if (agree) own.group.set(rendezvous, batches.front().rank, batches.front().inputs.front());
    own.driven.clear();
    for (const CollectiveCall& call : own.calls) own.driven.push_back(&call);
    start(rank_lock, own.driven, agree ? own.group : group, merged.timeout);
  } catch (const std::exception& error) {
    rank_lock.set_failed();
    if (batches.size() < devices.size()) abort(error.what());
    throw;
  }
}

void Communicator::Impl::reduce_messages(ReduceOp op, std::span<const RankBatch> batches) {
  Scratch& own = scratch_of(batches.front());
  own.sources.clear();
  own.destinations.clear();
  for (int rank = 0; rank < num_ranks(); ++rank)
    own.sources.push_back(rendezvous.mailbox(rank, batches.front().rank).message);
  for (const RankBatch& batch : batches) own.destinations.push_back(batch.outputs.front().data);
  const TensorView& output = batches.front().outputs.front();
  backend->reduce_here(op, output.dtype, output.size(), own.sources, own.destinations);
}

void Communicator::Impl::start(const detail::Rendezvous::RankLock& rank_lock,
                               std::span<const CollectiveCall* const> calls, detail::GroupTable& table,
                               std::chrono::milliseconds timeout) {
  if (table.is_empty()) return;
  const CollectiveCall& first = *calls.front();
  backend::GroupCall group_call{.operation = detail::operation_name(first.collective, first.op),
                                .calls = table.calls(),
                                .own = table.calls(),
                                .op = first.op,
                                .root = first.root,
                                .transfers = table.transfers(),
                                .route = first.route,
                                .timeout = timeout};
  if (calls.size() < devices.size()) {  // also where the others are other workers'
    std::vector<backend::RankCall>& own = scratch_of(*first.batch).rank_calls;
    own.clear();
    for (const CollectiveCall* const call : calls)
      own.push_back(table.calls()[static_cast<std::size_t>(call->batch->rank)]);
    group_call.own = own;
  }
  std::vector<Buffer> temporaries;  // freed in stream order
  if (table.converts()) {
    for (const CollectiveCall* const call : calls) convert(*call, table, temporaries);
    meet_again(rank_lock, group_call);
  }
  begin_watch(calls, timeout);
  // An error before this call, or a refusal by the backend, leaves the communicator usable.
  try {
    if (is_in_rank_order(first))
      enqueue_in_rank_order(rank_lock, first.collective, group_call);
    else
      enqueue(first.collective, group_call);
  } catch (const std::exception& error) {
    if (!is_refusal(error)) {
      // What moves data may hear of a lost worker first, and knows no names.
      if (workers && dynamic_cast<const CollectiveError*>(&error) != nullptr) workers->await_report();
      abort(error.what());
    }
    throw;
  }
  end_watch(calls, timeout);
}

// Converts into the outputs of an all_reduce; for other reductions, whose ranks need not have an output of
// their input's size, into temporaries.
void Communicator::Impl::convert(const CollectiveCall& call, detail::GroupTable& table,
                                 std::vector<Buffer>& temporaries) {
  const StreamRef& stream = call.batch->stream;
  auto segment = table.segments(call.batch->rank).begin();
  for (const TensorView& tensor : call.tensors()) {
    if (tensor.size() == 0) continue;
    if (call.converts(tensor)) {
      TensorView converted = tensor;
      converted.dtype = segment->dtype;
      converted.strides = tensor.shape.contiguous_strides();
      converted.read_only = false;
      converted.data = segment->receive;
      if (call.collective != Collective::all_reduce)
        converted.data =
            temporaries.emplace_back(static_cast<std::size_t>(converted.nbytes()), stream).data();
      segment->send = converted.data;
      stream.device_backend().kernels().copy(converted, tensor, stream.handle());
    }
    ++segment;
  }
}

void Communicator::Impl::meet_again(const detail::Rendezvous::RankLock& rank_lock,
                                    const backend::GroupCall& group_call) {
  if (group_call.own.size() == num_local_ranks() ||
      prepared.arrive_and_wait(static_cast<int>(group_call.own.size())))
    return;
  rendezvous.throw_aborted(rank_lock, group_call.operation);
}

void Communicator::Impl::enqueue(Collective collective, const backend::GroupCall& group_call) {
  switch (collective) {
    case Collective::all_reduce: return backend->all_reduce(group_call);
    case Collective::reduce: return backend->reduce(group_call);
    case Collective::broadcast: return backend->broadcast(group_call);
    case Collective::all_gather: return backend->all_gather(group_call);
    case Collective::reduce_scatter: return backend->reduce_scatter(group_call);
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all:
    case Collective::send_recv: return backend->transfer(group_call);
  }
}

void Communicator::Impl::set_gathered(std::span<const detail::Arrival* const> all) {
  gathered.set(all);
  if (!detail::call_of(all.front()).is({Collective::reduce_scatter})) return;
  for (int rank = 0; rank < num_ranks(); ++rank)
    for (backend::Segment& segment : gathered.segments(rank)) segment.count *= num_ranks();
}

// Every rank gathers all contributions and combines them in the same order.
void Communicator::Impl::enqueue_in_rank_order(const detail::Rendezvous::RankLock& rank_lock,
                                               Collective collective, const backend::GroupCall& group_call) {
  const std::int64_t n = num_ranks();
  const std::int64_t sent_blocks = collective == Collective::reduce_scatter ? n : 1;
  const ReduceOp step = group_call.op == ReduceOp::mean ? ReduceOp::sum : group_call.op;
  const double divisor = group_call.op == ReduceOp::mean ? static_cast<double>(n) : 1.0;
  const auto stream_of = [&](const backend::RankCall& call) {
    return StreamRef(*device_backends[static_cast<std::size_t>(call.rank)], call.stream);
  };

  std::vector<Buffer> temporaries;  // freed in stream order
  std::vector<backend::RankCall> own;
  for (const backend::RankCall& call : group_call.own) {
    const std::span<backend::Segment> segments = gathered.segments(call.rank);
    const auto bytes_of_all = [&](std::size_t s) {
      constexpr std::size_t kAlignment = 256;
      const auto count = static_cast<std::size_t>(n * segments[s].count);
      return (count * size_of(call.segments[s].dtype) + kAlignment - 1) / kAlignment * kAlignment;
    };
    std::size_t num_bytes = 0;
    for (std::size_t s = 0; s < segments.size(); ++s) num_bytes += bytes_of_all(s);
    auto* all = static_cast<std::byte*>(temporaries.emplace_back(num_bytes, stream_of(call)).data());
    for (std::size_t s = 0; s < segments.size(); ++s) {
      const backend::Segment& segment = call.segments[s];
      const std::size_t own_bytes = bytes_of_all(s);
      segments[s] = {segment.send, all, segments[s].count, segment.dtype};
      all += own_bytes;
    }
    own.push_back(gathered.calls()[static_cast<std::size_t>(call.rank)]);
  }
  backend::GroupCall gathers = group_call;
  gathers.calls = gathered.calls();
  gathers.own = own;
  meet_again(rank_lock, gathers);
  backend->all_gather(gathers);

  for (const backend::RankCall& call : group_call.own) {
    if (collective == Collective::reduce && call.rank != group_call.root) continue;
    const StreamRef stream = stream_of(call);
    const Device device = stream.device();
    for (std::size_t s = 0; s < call.segments.size(); ++s) {
      const auto [send, all, count, dtype] = gathered.segments(call.rank)[s];
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
