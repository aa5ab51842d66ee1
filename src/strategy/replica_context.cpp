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
#include "strategy/runtime/replica_gather.hpp"
#include "strategy/runtime/replica_run.hpp"
#include "values/sparse.hpp"

namespace lockstep {

using detail::Collective;
using detail::ContextFrame;
using detail::Contribution;

int ReplicaContext::num_replicas_in_sync() const noexcept { return strategy_.num_replicas_in_sync(); }

int ReplicaContext::local_index() const noexcept {
  return run_ == nullptr ? 0 : replica_id_ - run_->state().first_replica();
}

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
  const RankBatch batch{replica_id_, current_stream(here), {&in, 1}, {&out, 1}};
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
    const detail::OwnedBatch batch(replica_id_, stream(), inputs, outputs, structure);
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
    const TensorView dense(static_cast<void*>(nullptr), value.slices->dense_shape,
                           value.slices->values.dtype(), here);
    group.meet(
        local_index(), {.operation = "all_reduce of sparse rows", .tensors = {&dense, 1}},
        [&](std::span<const detail::Arrival* const> arrivals) {
          const auto shape_of = [&](std::size_t r) -> const Shape& { return arrivals[r]->tensors[0].shape; };
          for (std::size_t r = 1; r < arrivals.size(); ++r)
            LOCKSTEP_EXPECTS(shape_of(r) == shape_of(0), CollectiveMismatch, "all_reduce(", op,
                             "): sparse rows of ", group.label(static_cast<int>(r)), " are of a dense ",
                             shape_of(r), ", of ", group.label(0), " of a dense ", shape_of(0),
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
  return detail::gather_over(group, local_index(), values, axis, structure, merged);
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
