#include <lockstep/error.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/strategy/sync_on_read.hpp>

#include "strategy/default_strategy.hpp"
#include "strategy/variable_state.hpp"

/// Reads of variables in the context at hand: semantics 6.2 and 6.4.
namespace lockstep::detail {

namespace {

using Mode = ContextFrame::Mode;

void check_aggregation(const VariableState& state) {
  LOCKSTEP_EXPECTS(
      state.aggregation != VariableAggregation::none, InvalidArgument, "reading the variable '", state.name,
      "' as one value: it is on_read with aggregation none, so its components stay apart. Read it in "
      "a replica function, use local_results, or make it with .aggregation = sum, mean or "
      "only_first_replica.");
}

ReduceOp reduce_op(VariableAggregation aggregation) {
  return aggregation == VariableAggregation::sum ? ReduceOp::sum : ReduceOp::mean;
}

/// All components as one, in cross-replica context.
Tensor aggregate(const VariableState& state) {
  check_aggregation(state);
  if (state.aggregation == VariableAggregation::only_first_replica) return state.components[0];
  const Device& device = state.components[current_component(state.components)].device();
  return state.strategy->extended().reduce_to(reduce_op(state.aggregation),
                                              PerReplica<Tensor>(state.components), device)[0];
}

/// The same in a replica function, where every replica asks.
Tensor aggregate_in_replica(const VariableState& state, const Tensor& own, ReplicaContext& context) {
  check_aggregation(state);
  if (state.aggregation != VariableAggregation::only_first_replica)
    return context.all_reduce(reduce_op(state.aggregation), own);
  return context.merge_call_as(
      "a sync-on-read",
      [](Strategy& strategy, const PerReplica<Tensor>& all) {
        return strategy.extended().broadcast_to(all[0]);
      },
      own);
}

}  // namespace

Tensor read_variable(const Variable& variable) {
  const VariableState& state = *VariableState::of(variable);
  const std::vector<Tensor>& components = state.components;
  const ContextFrame* const top = ContextFrame::top();
  const bool is_plain = state.strategy == &default_strategy();
  const auto lock = state.lock();
  LOCKSTEP_EXPECTS(top == nullptr || is_plain || &top->strategy() == state.strategy, ContextError,
                   "reading the variable '", state.name, "' of ", state.strategy->name(),
                   " inside the scope of another strategy, ", top->strategy().name(),
                   ". Strategies cannot be mixed: leave that scope first.");
  if (top != nullptr && top->mode() == Mode::replica && !is_plain) {
    ReplicaContext& context = *top->replica_context();
    if (components.size() == 1 && !state.is_one_per_replica) return components[0].to(context.device());
    const Tensor& own = components[static_cast<std::size_t>(context.local_index())];
    return state.is_sync_on_read && sync_on_read::is_active() ? aggregate_in_replica(state, own, context)
                                                              : own;
  }
  if (top != nullptr && top->mode() == Mode::update) {
    const int i = components.size() > 1 ? top->update_index() : 0;
    const Tensor& component = components[static_cast<std::size_t>(i)];
    return i == state.being_updated ? component.clone() : component;
  }
  return state.is_sync_on_read ? aggregate(state) : components[current_component(components)];
}

}  // namespace lockstep::detail
