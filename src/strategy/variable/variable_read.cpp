#include "strategy/variable/variable_read.hpp"

#include <algorithm>
#include <list>
#include <mutex>

#include <lockstep/collectives/cross_device_ops.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/strategy/sync_on_read.hpp>

#include "detail/expects.hpp"
#include "strategy/context/context.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/variable/locked_components.hpp"
#include "strategy/variable/variable_access.hpp"
#include "strategy/variable/variable_state.hpp"

namespace lockstep::detail {

namespace {

using Mode = ContextFrame::Mode;

constexpr std::string_view kSyncOnRead = "a sync-on-read";

void check_aggregation(const VariableState& state) {
  LOCKSTEP_EXPECTS(
      state.aggregation() != VariableAggregation::none, InvalidArgument, "reading the variable '",
      state.name(),
      "' as one value: it is on_read with aggregation none, so its components stay apart. Read it in "
      "a replica function, use local_results, or make it with .aggregation = sum, mean or "
      "only_first_replica.");
}

ReduceOp reduce_op(VariableAggregation aggregation) {
  return aggregation == VariableAggregation::sum ? ReduceOp::sum : ReduceOp::mean;
}

/// Position of the component on the current device, else 0.
std::size_t component_here(const VariableState& state) {
  const auto found = std::ranges::find(state.devices(), current_device());
  return found == state.devices().end() ? 0 : static_cast<std::size_t>(found - state.devices().begin());
}

/// Combines all components while a run on another thread uses the communicators and the devices' streams. A
/// collective of that run may be enqueued on some devices and not yet on others, so that this work has
/// streams of its own, for which no stream of the run waits. Waits for the devices.
Tensor aggregate_beside_run(const VariableState& state, std::span<const Tensor> components,
                            const Device& device) {
  Tensor result;
  {
    std::list<Stream> streams;
    std::list<StreamScope> scopes;
    for (const Device& each : state.devices()) {
      streams.emplace_back(each).wait(current_stream(each));
      scopes.emplace_front(streams.back());
    }
    Tensor whole;
    if (state.aggregation() == VariableAggregation::sum) {
      // Added in the replicas' order, as communicators do.
      whole = components[0].to(device).cast(accumulator_dtype(state.dtype()));
      for (std::size_t i = 1; i < components.size(); ++i)
        whole = whole + components[i].to(device).cast(whole.dtype());
      whole = whole.cast(state.dtype());
    } else {
      std::vector<std::vector<Tensor>> parts;
      for (const Tensor& component : components) parts.push_back({component});
      const int here = static_cast<int>(std::ranges::find(state.devices(), device) - state.devices().begin());
      whole = ReductionToOneDevice().reduce(ReduceOp::mean, parts, state.devices(),
                                            here)[static_cast<std::size_t>(here)][0];
    }
    for (Stream& stream : streams) stream.synchronize();
    while (!scopes.empty()) scopes.pop_front();
    result = whole.clone();
    current_stream(device).synchronize();  // before `whole` is destroyed with its stream
  }
  return result;
}

}  // namespace

void VariableState::check_readable() const {
  const ContextFrame* const top = ContextFrame::top();
  const bool is_plain = &strategy() == &default_strategy();
  if (top != nullptr && !is_plain && &top->strategy() != &strategy())
    check_is_of(*top, strategy(), concat("reading the variable '", name_, "'"));
}

Tensor VariableState::aggregate(RecycledVector<Tensor> parts) const {
  StrategyState& own = StrategyState::of(strategy());
  if (own.workers() != nullptr) {  // whose calls keep their order
    Tensor result;
    call_serialised(strategy(), kSyncOnRead, [&] {
      result = aggregation_ == VariableAggregation::only_first_replica
                   ? own.from_chief(parts[0])
                   : strategy().extended().reduce_to(reduce_op(aggregation_),
                                                     ValueAccess::per_replica(std::move(parts)),
                                                     devices_[component_here(*this)])[0];
    });
    return result;
  }
  if (aggregation_ == VariableAggregation::only_first_replica) return parts[0];
  const ReduceOp op = reduce_op(aggregation_);
  const Device& device = devices_[component_here(*this)];
  const auto call = own.calls().try_lock();
  if (!call) return aggregate_beside_run(*this, parts, device);
  return strategy().extended().reduce_to(op, ValueAccess::per_replica(std::move(parts)), device)[0];
}

namespace {

/// Combines the components of an on_read variable in a replica function, which every replica calls.
Tensor aggregate_in_replica(const VariableState& state, const Tensor& own, ReplicaContext& context) {
  check_aggregation(state);
  state.meet(context, kSyncOnRead);
  if (state.aggregation() != VariableAggregation::only_first_replica)
    return context.all_reduce(reduce_op(state.aggregation()), own);
  return context.merge_call_as(
      kSyncOnRead,
      [](Strategy& strategy, const PerReplica<Tensor>& all) {
        return strategy.extended().broadcast_to(StrategyState::of(strategy).from_chief(all[0]));
      },
      own);
}

/// Whether all replicas of `reader` read one component, each as a value of its own on its device.
bool is_shared(const VariableState& state, const Strategy& reader) {
  return state.num_components() == 1 && (!state.is_one_per_replica() || &state.strategy() != &reader);
}

/// The components that a read in the current context needs.
struct Range {
  std::size_t begin, end;
};

Range to_read(const VariableState& state, ReadFrom from) {
  state.check_readable();
  const ContextFrame* const top = ContextFrame::top();
  const auto only = [](std::size_t i) { return Range{i, i + 1}; };
  if (top != nullptr && top->mode() == Mode::replica)
    return only(is_shared(state, top->strategy())
                    ? 0
                    : static_cast<std::size_t>(top->replica_context()->local_index()));
  if (const auto component = updated_component(state)) return only(*component);
  if (!state.is_sync_on_read()) return only(from == ReadFrom::component_0 ? 0 : component_here(state));
  check_aggregation(state);
  return {0, state.num_components()};
}

/// The value of a read, made of snapshots of those components.
Tensor combined(const VariableState& state, std::span<const Tensor> components) {
  const ContextFrame* const top = ContextFrame::top();
  if (top != nullptr && top->mode() == Mode::replica) {
    ReplicaContext& context = *top->replica_context();
    if (is_shared(state, top->strategy())) return components[0].to(context.device());
    return state.is_sync_on_read() && sync_on_read::is_active()
               ? aggregate_in_replica(state, components[0], context)
               : components[0];
  }
  if (!state.is_sync_on_read() || updated_component(state)) return components[0];
  return state.aggregate({components.begin(), components.end()});
}

}  // namespace

Tensor read_variable(const Variable& variable) {
  const VariableState& state = *VariableAccess::state(variable);
  const auto [begin, end] = to_read(state, ReadFrom::current_device);
  if (end - begin > 1) return combined(state, VariableAccess::snapshot(variable));
  const Tensor only = state.read(begin);
  return combined(state, {&only, 1});
}

RecycledVector<Tensor> read_variables(std::span<const Variable> variables, ReadFrom from) {
  RecycledVector<ComponentRef> components;
  RecycledVector<std::size_t> ends;
  for (const Variable& variable : variables) {
    VariableState& state = *VariableAccess::state(variable);
    const auto [begin, end] = to_read(state, from);
    for (std::size_t i = begin; i < end; ++i) components.push_back({&state, i});
    ends.push_back(components.size());
  }
  RecycledVector<Tensor> snapshots(components.size());
  {
    LockedComponents locked(components);
    for (std::size_t k = 0; k < locked.size(); ++k) snapshots[k] = locked.snapshot(k);
  }
  RecycledVector<Tensor> values;
  values.reserve(variables.size());
  for (std::size_t v = 0, begin = 0; v < variables.size(); begin = ends[v++])
    values.push_back(
        combined(*VariableAccess::state(variables[v]), std::span(snapshots).subspan(begin, ends[v] - begin)));
  return values;
}

}  // namespace lockstep::detail
