#include <algorithm>
#include <list>
#include <utility>

#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/strategy/strategy_extended.hpp>

#include "detail/expects.hpp"
#include "strategy/context/context.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/cross_replica_reduce.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/variable/locked_components.hpp"
#include "strategy/variable/variable_state.hpp"
#include "strategy/variable/variable_write.hpp"

namespace lockstep {

using detail::ContextFrame;
using detail::StrategyState;

namespace detail {

void raise_unresolved_argument(int size) {
  raise<InvalidArgument>({__FILE__, __LINE__, __func__},
                         concat("update: an argument is a per-replica value with ", size,
                                " components. Resolve it with reduce_to(op, value, variable) first."));
}

void raise_mirrored_argument(int size, int num_components) {
  raise<InvalidArgument>(
      {__FILE__, __LINE__, __func__},
      concat("update: an argument is a mirrored value with ", size, " components, what is updated has ",
             num_components, ". Pass a value of the same devices."));
}

}  // namespace detail

std::vector<Device> StrategyExtended::worker_devices() const {
  LOCKSTEP_EXPECTS(&strategy_ != &detail::default_strategy(), ContextError,
                   "worker_devices of the default strategy: it has no devices of its own. Enter a strategy's "
                   "scope first.");
  return StrategyState::of(strategy_).devices();
}

std::vector<Device> StrategyExtended::parameter_devices() const {
  LOCKSTEP_EXPECTS(&strategy_ != &detail::default_strategy(), ContextError,
                   "parameter_devices of the default strategy: it has no devices of its own. Enter a "
                   "strategy's scope first.");
  return StrategyState::of(strategy_).parameter_devices();
}

bool StrategyExtended::between_graph() const {
  check_is_not_default("between_graph");
  StrategyState& state = StrategyState::of(strategy_);
  return state.has_parameter_devices() || state.workers() != nullptr;
}

bool StrategyExtended::should_checkpoint() const noexcept {
  return &strategy_ == &detail::default_strategy() || StrategyState::of(strategy_).first_replica() == 0;
}

bool StrategyExtended::should_init() const {
  check_is_not_default("should_init");
  return true;
}

void StrategyExtended::check_is_not_default(std::string_view what) const {
  LOCKSTEP_EXPECTS(&strategy_ != &detail::default_strategy(), Unsupported, what,
                   " of the default strategy: no graphs and no processes belong to it. Ask a strategy that "
                   "was made.");
}

Mirrored<Tensor> StrategyExtended::reduce_to(ReduceOp op, const ReduceValue& value,
                                             const Destination& destination,
                                             const CommunicationOptions& options) {
  const detail::ReduceTo one{&value, destination.devices()};
  return detail::ValueAccess::mirrored(std::move(detail::reduce_all(strategy_, op, {&one, 1}, options)[0]));
}

Mirrored<IndexedSlices> StrategyExtended::reduce_to(ReduceOp op, const PerReplica<IndexedSlices>& value,
                                                    const Destination& destination,
                                                    const CommunicationOptions& options) {
  std::vector<IndexedSlices> components;
  detail::call_serialised(strategy_, "reduce_to", [&] {
    detail::CrossReplicaReduce reduction(StrategyState::of(strategy_), op, "reduce_to", options);
    const IndexedSlices reduced = reduction.sparse(value, destination.devices()[0]);
    for (const Device& device : destination.devices())
      components.push_back({reduced.values.to(device), reduced.indices.to(device), reduced.dense_shape});
  });
  return Mirrored(std::move(components));
}

std::vector<Mirrored<Tensor>> StrategyExtended::batch_reduce_to(
    ReduceOp op, const std::vector<std::pair<ReduceValue, Destination>>& pairs,
    const CommunicationOptions& options) {
  detail::check_cross_replica(strategy_, "batch_reduce_to");
  detail::RecycledVector<detail::ReduceTo> reductions;
  reductions.reserve(pairs.size());
  for (const auto& [value, destination] : pairs) reductions.push_back({&value, destination.devices()});
  std::vector<Mirrored<Tensor>> results;
  results.reserve(pairs.size());
  for (auto& components : detail::reduce_all(strategy_, op, reductions, options))
    results.push_back(detail::ValueAccess::mirrored(std::move(components)));
  return results;
}

Work<std::vector<Mirrored<Tensor>>> StrategyExtended::start_batch_reduce_to(
    ReduceOp op, const std::vector<std::pair<ReduceValue, Destination>>& pairs,
    const CommunicationOptions& options) {
  detail::StartedWork started;
  std::vector<Mirrored<Tensor>> results;
  if (&strategy_ == &detail::default_strategy())
    return {std::move(started), batch_reduce_to(op, pairs, options)};
  detail::call_serialised(strategy_, "start_batch_reduce_to", [&] {
    StrategyState& state = StrategyState::of(strategy_);
    detail::RecycledVector<StreamRef> streams;
    for (detail::ReplicaGroup& group : state.groups()) {
      for (int i = 0; i < state.num_local_replicas(); ++i) {
        streams.push_back(group.communication_stream(i));
        for (const Device& device : state.all_devices()) streams.back().wait(current_stream(device));
      }
    }
    try {
      std::list<StreamScope, detail::RecyclingAllocator<StreamScope>> scopes;
      for (const StreamRef& stream : streams) scopes.emplace_front(stream);
      results = batch_reduce_to(op, pairs, options);
    } catch (...) {
      for (const StreamRef& stream : streams)
        current_stream(stream.device()).wait(stream);  // it may be reading the operands
      throw;
    }
    detail::RecycledVector<Tensor> operands;
    for (const auto& [value, destination] : pairs) {
      for (const Tensor& tensor : value.tensors()) operands.push_back(tensor);
      for (const IndexedSlices& slices : value.slices()) {
        operands.push_back(slices.values);
        operands.push_back(slices.indices);
      }
    }
    for (const StreamRef& stream : streams) started.add(stream, operands);
  });
  return {std::move(started), std::move(results)};
}

Mirrored<Tensor> StrategyExtended::broadcast_to(const Tensor& tensor, const CommunicationOptions& options) {
  return broadcast(tensor, StrategyState::of(strategy_).devices(), options);
}

Mirrored<Tensor> StrategyExtended::broadcast_to(const Tensor& tensor, const Destination& destination,
                                                const CommunicationOptions& options) {
  return broadcast(tensor, destination.devices(), options);
}

Mirrored<Tensor> StrategyExtended::broadcast(const Tensor& tensor, std::span<const Device> devices,
                                             const CommunicationOptions& options) {
  detail::RecycledVector<Tensor> components;
  components.reserve(devices.size());
  detail::call_serialised(strategy_, "broadcast_to", [&] {
    StrategyState& state = StrategyState::of(strategy_);
    const int logical_device = state.groups().find(devices);
    if (devices.size() == 1 || logical_device < 0) {
      for (const Device& device : devices) components.push_back(detail::copied_to(tensor, device));
      return;
    }
    // One broadcast to all replicas, from the replica that has the tensor.
    const auto found = std::ranges::find(devices, tensor.device());
    const int root = found == devices.end() ? 0 : static_cast<int>(found - devices.begin());
    const Tensor source = tensor.to(devices[static_cast<std::size_t>(root)]).contiguous();
    detail::RecycledVector<TensorView> outputs;
    detail::RecycledVector<StreamRef> streams;
    for (const Device& device : devices) {
      components.push_back(Tensor::empty(tensor.shape(), tensor.dtype(), device));
      outputs.push_back(components.back().view());
      streams.push_back(current_stream(device));
    }
    state.groups()[static_cast<std::size_t>(logical_device)].communicator().broadcast(
        source.view(), outputs, root, streams, options.merged_over(state.options()));
  });
  return detail::ValueAccess::mirrored(std::move(components));
}

void StrategyExtended::for_each_component(const Variable& variable,
                                          detail::FunctionRef<void(Tensor&, int)> fn) {
  detail::VariableState& state = *detail::VariableAccess::state(variable);
  LOCKSTEP_EXPECTS(&state.strategy() == &strategy_, InvalidArgument, "update of the variable '", state.name(),
                   "' by ", strategy_.name(), ": it was made by another strategy, ", state.strategy().name(),
                   ". Make it in this strategy's scope.");
  detail::call_serialised(strategy_, "update", [&] {
    const std::size_t n = state.num_components();
    detail::VariableUpdate update{state, {}};
    {
      detail::LockedComponents locked(state);
      for (std::size_t i = 0; i < n; ++i) locked.begin_write(i);
      for (std::size_t i = 0; i < n; ++i) update.values.push_back(locked.snapshot(i));
    }
    for (Tensor& value : update.values)
      if (value.is_shared()) value = value.clone();
    for (std::size_t i = 0; i < n; ++i) {
      Tensor& value = update.values[i];
      ContextFrame frame(ContextFrame::Mode::update, strategy_, nullptr, static_cast<int>(i), &update);
      DeviceScope here(state.devices()[i]);
      Tensor local = value;
      fn(local, static_cast<int>(i));
      if (local.is_same_object(value)) continue;
      detail::check_fits(state, local, "update");
      value.copy_(local.to(state.devices()[i]));
    }
    for (Tensor& value : update.values)
      if (value.is_shared()) value = value.clone();  // tensors that fn has kept, or returned, are snapshots
    detail::LockedComponents locked(state);
    for (std::size_t i = 0; i < n; ++i) locked.begin_write(i);
    locked.replace(update.values);
  });
}

NonSlot StrategyExtended::non_slot_devices(const std::vector<Variable>& variables) const {
  detail::check_cross_replica(strategy_, "non_slot_devices");
  const StrategyState& state = StrategyState::of(strategy_);
  if (state.kind().non_slot_device) return {{*state.kind().non_slot_device}, std::nullopt};
  if (&strategy_ != &detail::default_strategy() && !state.has_parameter_devices())
    return {state.devices(), std::nullopt};
  LOCKSTEP_EXPECTS(!variables.empty(), InvalidArgument, "non_slot_devices of ", strategy_.name(),
                   ": without variables there is none to stay with. Pass those that are trained.");
  const Variable& smallest = *std::ranges::min_element(
      variables, [](const Variable& a, const Variable& b) { return a.name() < b.name(); });
  return {detail::VariableAccess::state(smallest)->devices(), smallest};
}

void StrategyExtended::check_place(const NonSlot& where, std::string_view what) const {
  const bool is_all = &strategy_ != &detail::default_strategy() &&
                      StrategyState::of(strategy_).groups().find(where.devices) >= 0;
  LOCKSTEP_EXPECTS(is_all || where.devices.size() == 1, InvalidArgument, what, " of ", strategy_.name(), ": ",
                   where.devices.size(),
                   " devices are neither all worker devices nor one. Pass what non_slot_devices gives.");
}

void StrategyExtended::for_each_device(const NonSlot& where, detail::FunctionRef<void(int)> fn) {
  check_place(where, "update_non_slot");
  detail::call_serialised(strategy_, "update_non_slot", [&] {
    // One device for several replicas belongs to none of them: it holds state for all.
    const auto mode = where.devices.size() == 1 && strategy_.num_replicas_in_sync() > 1
                          ? ContextFrame::Mode::cross_replica
                          : ContextFrame::Mode::update;
    for (std::size_t i = 0; i < where.devices.size(); ++i) {
      ContextFrame frame(mode, strategy_, nullptr, static_cast<int>(i));
      DeviceScope here(where.devices[i]);
      fn(static_cast<int>(i));
    }
  });
}

namespace {

void check_in_scope(const Strategy& strategy) {
  const ContextFrame* top = ContextFrame::top();
  LOCKSTEP_EXPECTS(
      top != nullptr && &top->strategy() == &strategy && top->mode() != ContextFrame::Mode::replica,
      ContextError, "colocate_vars_with of ", strategy.name(),
      " outside its scope. Call it where its variables are made: inside scope(), and in no replica "
      "function.");
}

}  // namespace

ColocationScope StrategyExtended::colocate_vars_with(const Variable& variable) {
  check_in_scope(strategy_);
  LOCKSTEP_EXPECTS(variable_created_in_scope(variable), InvalidArgument, "colocate_vars_with of ",
                   strategy_.name(), ": the variable '", variable.name(), "' was made by ",
                   variable.strategy().name(), ". Pass a variable made in this strategy's scope.");
  return ColocationScope(strategy_, detail::VariableAccess::state(variable)->devices());
}

ColocationScope StrategyExtended::colocate_vars_with(const NonSlot& where) {
  check_in_scope(strategy_);
  check_place(where, "colocate_vars_with");
  return ColocationScope(strategy_, where.devices);
}

bool StrategyExtended::variable_created_in_scope(const Variable& variable) const {
  return detail::VariableAccess::state(variable)->is_of(strategy_);
}

std::variant<Variable, Tensor> StrategyExtended::value_container(const Tensor& value) const {
  if (auto owner = StrategyState::of(strategy_).variables().find_owner(value))
    return detail::VariableAccess::handle(std::move(owner));
  return value;
}

}  // namespace lockstep
