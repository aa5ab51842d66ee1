#include <array>

#include <lockstep/ops.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "collectives/collective_checks.hpp"
#include "collectives/packed_all_reduce.hpp"
#include "collectives/rendezvous.hpp"
#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"
#include "divided.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/replica_run.hpp"
#include "values/gather_checks.hpp"
#include "values/sparse.hpp"

namespace lockstep {

using detail::Collective;
using detail::ContextFrame;
using detail::Contribution;

int ReplicaContext::num_replicas_in_sync() const noexcept { return strategy_.num_replicas_in_sync(); }

int ReplicaContext::local_index() const noexcept { return replica_id_; }

const Device& ReplicaContext::device() const noexcept {
  return run_ == nullptr ? detail::cpu_0() : run_->state().devices()[static_cast<std::size_t>(local_index())];
}

void ReplicaContext::check_current(std::string_view what) const {
  const ContextFrame* top = ContextFrame::top();
  const ReplicaContext* current =
      top != nullptr ? top->replica_context() : &detail::default_replica_context();
  if (current == this) return;
  LOCKSTEP_EXPECTS(
      current != nullptr, ContextError, what, " on the context of replica ", replica_id_,
      " in cross-replica context. Call the strategy's own functions there: you are past the merge.");
  LOCKSTEP_EXPECTS(&current->strategy() == &strategy_, ContextError, what, " on a context of ",
                   strategy_.name(), ", but this thread runs a replica of another strategy, ",
                   current->strategy().name(),
                   " (mismatching strategies). Use the context that the function was given, on the thread "
                   "that called it.");
  detail::raise<ContextError>({__FILE__, __LINE__, __func__},
                              detail::concat(what, " on the context of replica ", replica_id_,
                                             ", but this thread runs replica ", current->replica_id_,
                                             " (mismatching context). Use the context that the function was "
                                             "given, on the thread that called it."));
}

void detail::raise_sparse_gather(int replica) {
  raise<Unsupported>({__FILE__, __LINE__, __func__},
                     concat("all_gather of sparse rows on replica ", replica,
                            ": IndexedSlices cannot be gathered. Gather their values and indices instead."));
}

Tensor ReplicaContext::all_reduce_one(ReduceOp op, const Tensor& value, const CommunicationOptions& options) {
  if (run_ != nullptr && run_->state().cross_device_ops() != nullptr) {
    detail::RecycledVector<Contribution> values{{value, {}}};
    return std::move(all_reduce_batch(op, std::move(values), {}, options)[0].tensor);
  }
  check_current("all_reduce");
  if (run_ == nullptr) return value;
  detail::StrategyState& state = run_->state();
  const CommunicationOptions merged = options.merged_over(state.options());
  detail::ReplicaGroup& group = state.groups().agree_on_current(
      local_index(), operation_name(Collective::all_reduce, op), merged.timeout);
  const Device& here = group.devices()[static_cast<std::size_t>(local_index())];
  const Tensor input = value.to(here).contiguous();
  Tensor output = Tensor::empty(input.shape(), reduced_dtype(op, input.dtype()), here);
  const TensorView in = input.view(), out = output.view();
  const RankBatch batch{local_index(), current_stream(here), {&in, 1}, {&out, 1}};
  group.communicator().all_reduce(op, {&batch, 1}, merged);
  return output;
}

detail::RecycledVector<Contribution> ReplicaContext::all_reduce_batch(
    ReduceOp op, detail::RecycledVector<Contribution> values, std::string_view structure,
    const CommunicationOptions& options) {
  check_current("all_reduce");
  if (run_ == nullptr) return values;
  detail::StrategyState& state = run_->state();
  const CommunicationOptions merged = options.merged_over(state.options());
  detail::ReplicaGroup& group = state.groups().agree_on_current(
      local_index(), operation_name(Collective::all_reduce, op), merged.timeout);
  const Device& here = group.devices()[static_cast<std::size_t>(local_index())];

  detail::RecycledVector<Tensor> inputs;
  inputs.reserve(values.size());
  for (const Contribution& value : values)
    if (!value.slices) inputs.push_back(value.tensor.to(here).contiguous());
  detail::RecycledVector<Tensor> outputs = detail::empty_results(op, inputs, here);
  // An empty batch takes part too: replicas must agree that it is empty.
  if (!inputs.empty() || values.empty()) {
    const detail::OwnedBatch batch(local_index(), stream(), inputs, outputs, structure);
    if (state.cross_device_ops() == nullptr) {
      detail::all_reduce(group.communicator(), op, {&batch.batch(), 1}, merged);
    } else {
      group.communicator().check_all_reduce(op, {&batch.batch(), 1}, merged);
      outputs = merge_call(
          [&](Strategy&, const PerReplica<const detail::RecycledVector<Tensor>*>& all) {
            detail::RecycledVector<detail::RecycledVector<Tensor>> ranks;
            for (const auto* const rank : all) ranks.push_back(*rank);
            return detail::ValueAccess::per_replica(state.reduce(group, op, ranks, -1, options));
          },
          static_cast<const detail::RecycledVector<Tensor>*>(&inputs));
    }
  }

  std::size_t next = 0;
  for (Contribution& value : values) {
    if (!value.slices) {
      value.tensor = std::move(outputs[next++]);
      continue;
    }
    detail::check_sparse_reduction(op, *value.slices);
    detail::Rendezvous& rendezvous = group.rendezvous();
    rendezvous.meet(
        local_index(), {.operation = "all_reduce of sparse rows", .payload = &*value.slices},
        [&](std::span<const detail::Arrival* const> arrivals) {
          const auto shape_of = [&](std::size_t r) -> const Shape& {
            return static_cast<const IndexedSlices*>(arrivals[r]->payload)->dense_shape;
          };
          for (std::size_t r = 1; r < arrivals.size(); ++r)
            LOCKSTEP_EXPECTS(shape_of(r) == shape_of(0), CollectiveMismatch, "all_reduce(", op,
                             "): sparse rows of ", rendezvous.label(static_cast<int>(r)), " are of a dense ",
                             shape_of(r), ", of ", rendezvous.label(0), " of a dense ", shape_of(0),
                             ". Pass rows of one dense tensor.");
        },
        merged.timeout);
    const std::array parts{value.slices->values, value.slices->indices};
    detail::RecycledVector<Tensor> gathered = all_gather_batch(parts, 0, {}, options);
    if (op == ReduceOp::mean) gathered[0] = detail::divided(gathered[0], num_replicas_in_sync());
    value.slices = IndexedSlices{std::move(gathered[0]), std::move(gathered[1]), value.slices->dense_shape};
  }
  return values;
}

std::pair<detail::StartedWork, detail::RecycledVector<Contribution>> ReplicaContext::start_all_reduce_batch(
    ReduceOp op, detail::RecycledVector<Contribution> values, std::string_view structure,
    const CommunicationOptions& options) {
  check_current("start_all_reduce");
  for (const Contribution& value : values)
    LOCKSTEP_EXPECTS(!value.slices, InvalidArgument, "start_all_reduce(", op, ") on replica ", replica_id_,
                     ": sparse rows cannot be reduced in the background. Use all_reduce.");
  detail::StartedWork started;
  if (run_ == nullptr || run_->state().cross_device_ops() != nullptr)
    return {std::move(started), all_reduce_batch(op, std::move(values), structure, options)};
  for (Contribution& value : values) value.tensor = value.tensor.to(device()).contiguous();
  detail::RecycledVector<Tensor> operands;
  operands.reserve(values.size());
  for (const Contribution& value : values) operands.push_back(value.tensor);
  const StreamRef communication = run_->state().groups().current().communication_stream(local_index());
  communication.wait(stream());
  try {
    const StreamScope here(communication);
    values = all_reduce_batch(op, std::move(values), structure, options);
  } catch (...) {
    stream().wait(communication);  // it may be reading the operands
    throw;
  }
  started.add(communication, std::move(operands));
  return {std::move(started), std::move(values)};
}

detail::RecycledVector<Tensor> ReplicaContext::all_gather_batch(std::span<const Tensor> values,
                                                                std::int64_t axis, std::string_view structure,
                                                                const CommunicationOptions& options) {
  check_current("all_gather");
  if (run_ == nullptr) return {values.begin(), values.end()};
  detail::StrategyState& state = run_->state();
  const CommunicationOptions merged = options.merged_over(state.options());
  detail::ReplicaGroup& group = state.groups().agree_on_current(local_index(), "all_gather", merged.timeout);
  const Device& here = group.devices()[static_cast<std::size_t>(local_index())];
  detail::Rendezvous& rendezvous = group.rendezvous();

  detail::RecycledVector<Tensor> inputs;
  detail::RecycledVector<TensorView> views;
  inputs.reserve(values.size());
  views.reserve(values.size());
  for (const Tensor& value : values) {
    inputs.push_back(value.to(here).contiguous());
    views.push_back(inputs.back().view());
  }
  struct Call {
    std::int64_t axis;
    std::string_view structure;
  } const call{axis, structure};
  rendezvous.meet(
      local_index(), {.operation = "all_gather", .tensors = views, .payload = &call},
      [&](std::span<const detail::Arrival* const> arrivals) {
        detail::RecycledVector<std::span<const TensorView>> all;
        for (std::size_t r = 0; r < arrivals.size(); ++r) {
          const auto& mine = *static_cast<const Call*>(arrivals[r]->payload);
          const auto& first = *static_cast<const Call*>(arrivals[0]->payload);
          LOCKSTEP_EXPECTS(mine.axis == first.axis, CollectiveMismatch,
                           "all_gather: ", rendezvous.label(static_cast<int>(r)), " gathers along axis ",
                           mine.axis, ", ", rendezvous.label(0), " along axis ", first.axis,
                           ". Pass the same axis on every replica.");
          LOCKSTEP_EXPECTS(mine.structure == first.structure, CollectiveMismatch,
                           "all_gather: ", rendezvous.label(static_cast<int>(r)), "'s nest ", mine.structure,
                           " differs from ", rendezvous.label(0), "'s ", first.structure,
                           ". Pass the same keys and lengths on every replica.");
          all.push_back(arrivals[r]->tensors);
        }
        detail::check_gather(all, axis, "all_gather");
      },
      merged.timeout);
  // Every replica keeps its views until the next meeting, so that the others can read their shapes here.
  const std::size_t n = group.devices().size();
  detail::RecycledVector<detail::RecycledVector<Shape>> shapes(inputs.size());
  for (detail::RecycledVector<Shape>& of_one : shapes) of_one.reserve(n);
  for (std::size_t k = 0; k < inputs.size(); ++k)
    for (std::size_t r = 0; r < n; ++r)
      shapes[k].push_back(rendezvous.arrival(static_cast<int>(r), local_index()).tensors[k].shape);

  detail::RecycledVector<Tensor> flat_inputs, flat_outputs;
  flat_inputs.reserve(inputs.size());
  flat_outputs.reserve(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    std::int64_t total = 0;
    for (const Shape& shape : shapes[k]) total += shape.size();
    flat_inputs.push_back(inputs[k].reshape({inputs[k].size()}));
    flat_outputs.push_back(Tensor::empty({total}, inputs[k].dtype(), here));
  }
  const detail::OwnedBatch batch(local_index(), stream(), flat_inputs, flat_outputs);
  group.communicator().all_gather({&batch.batch(), 1}, merged);

  detail::RecycledVector<Tensor> results;
  results.reserve(inputs.size());
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const int along = shapes[k][0].normalize_axis(axis, "all_gather");
    if (along == 0) {
      std::int64_t rows = 0;
      for (const Shape& shape : shapes[k]) rows += shape[0];
      results.push_back(flat_outputs[k].reshape(shapes[k][0].with(0, rows)));
      continue;
    }
    detail::RecycledVector<Tensor> parts;
    std::int64_t begin = 0;
    for (const Shape& shape : shapes[k]) {
      parts.push_back(flat_outputs[k].slice(begin, begin + shape.size()).reshape(shape));
      begin += shape.size();
    }
    results.push_back(concatenate(parts, along));
  }
  return results;
}

void ReplicaContext::merge(const detail::MergeArguments& arguments,
                           detail::FunctionRef<void(std::span<void* const>)> combine,
                           detail::FunctionRef<void()> merge_fn, void* result,
                           detail::FunctionRef<void(void*)> take) {
  check_current(arguments.operation);
  if (run_ != nullptr) {
    run_->merge(local_index(), arguments, combine, merge_fn, result, take);
    return;
  }
  combine({&arguments.arguments, 1});
  ContextFrame frame(ContextFrame::Mode::cross_replica, strategy_);
  merge_fn();
  take(result);
}

}  // namespace lockstep
