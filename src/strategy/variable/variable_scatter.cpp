#include <algorithm>
#include <span>
#include <vector>

#include <lockstep/error.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/expects.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/variable/locked_components.hpp"
#include "strategy/variable/variable_access.hpp"
#include "strategy/variable/variable_state.hpp"
#include "strategy/variable/variable_write.hpp"
#include "values/scatter.hpp"

/// Writes of single rows.
namespace lockstep::detail {

namespace {

using backend::ScatterOp;
using Mode = ContextFrame::Mode;

ScatterOp scatter_op(Write write) {
  return static_cast<ScatterOp>(static_cast<int>(write) - static_cast<int>(Write::scatter_add));
}
static_assert(static_cast<int>(Write::scatter_update) - static_cast<int>(Write::scatter_add) ==
              static_cast<int>(ScatterOp::assign));

/// @param aggregates  whether replicas' rows are aggregated.
void check_scatter(const VariableState& state, Write write, const IndexedSlices& slices, bool aggregates) {
  const bool combines = write == Write::scatter_add || write == Write::scatter_sub ||
                        write == Write::scatter_mul || write == Write::scatter_div;
  LOCKSTEP_EXPECTS(!aggregates || combines || state.aggregation() == VariableAggregation::none ||
                       state.aggregation() == VariableAggregation::only_first_replica,
                   Unsupported, name(write), " of the variable '", state.name(), "' with aggregation ",
                   state.aggregation(), ". Make it with none or only_first_replica.");
  check(slices);
  LOCKSTEP_EXPECTS(slices.dense_shape == state.shape() && slices.values.dtype() == state.dtype(),
                   InvalidArgument, name(write), " of the variable '", state.name(), "': the rows are ",
                   slices.values.dtype(), " of a dense ", slices.dense_shape, ", the variable ",
                   state.shape(), " ", state.dtype(), ". Pass rows of the variable's shape and dtype.");
  LOCKSTEP_EXPECTS(write == Write::scatter_update || !is_boolean(state.dtype()), InvalidArgument, name(write),
                   " of the variable '", state.name(), "': booleans are no numbers. Use scatter_update.");
}

/// Writes all these components of the variable, or none: memory is taken first.
void scatter_together(Write write, const IndexedSlices& slices, std::span<const ComponentRef> components) {
  const ScatterPlan plan(slices, name(write));
  std::vector<ScatterPlan> plans;
  for (const auto& [state, i] : components) plans.push_back(plan.on(state->devices()[i]));
  LockedComponents locked(components);
  locked.unshare(LockedComponents::Storage::copied);
  change_together(name(write), components, [&] {
    for (std::size_t k = 0; k < locked.size(); ++k) {
      const DeviceScope here(locked[k].device());
      plans[k].apply(scatter_op(write), locked[k]);
    }
  });
}

void scatter_one(VariableState& state, std::size_t i, Write write, const IndexedSlices& slices) {
  const ComponentRef component{&state, i};
  scatter_together(write, slices, {&component, 1});
}

void scatter_all(VariableState& state, Write write, const IndexedSlices& slices) {
  scatter_together(write, slices, all_components(state));
}

/// The replicas' rows as one, by the variable's aggregation.
IndexedSlices aggregate(const Variable& variable, Write write, const PerReplica<IndexedSlices>& slices) {
  const VariableAggregation aggregation = variable.aggregation();
  StrategyState& strategy = StrategyState::of(variable.strategy());
  if (strategy.num_replicas() == 1) return slices[0];
  if (aggregation == VariableAggregation::only_first_replica) return strategy.from_chief(slices[0]);
  // Of several workers, each has objects of its own.
  const bool same =
      strategy.workers() == nullptr && std::ranges::all_of(slices, [&](const IndexedSlices& other) {
        return other.values.is_same_object(slices[0].values) &&
               other.indices.is_same_object(slices[0].indices);
      });
  LOCKSTEP_EXPECTS(!same || aggregation != VariableAggregation::sum, InvalidArgument, name(write),
                   " of the variable '", variable.name(),
                   "' with aggregation sum: every replica gave the same rows, whose sum over ", slices.size(),
                   " replicas is hardly meant. Give each replica's own rows.");
  if (same) return slices[0];
  const ReduceOp op = aggregation == VariableAggregation::sum ? ReduceOp::sum : ReduceOp::mean;
  return variable.strategy().extended().reduce_to(op, slices, variable)[0];
}

}  // namespace

void write_variable(Variable& variable, Write write, const IndexedSlices& slices, SumWrite sum_write) {
  VariableState& state = *VariableAccess::state(variable);
  const ContextFrame* const top = ContextFrame::top();
  const bool in_replica =
      top != nullptr && &top->strategy() == &state.strategy() && top->mode() == Mode::replica;
  const bool is_on_read = state.synchronization() == VariableSynchronization::on_read;
  LOCKSTEP_EXPECTS(
      in_replica || !is_on_read || sum_write == SumWrite::once, Unsupported, name(write),
      " of the variable '", state.name(),
      "' outside its replicas: on_read variables have rows written by replicas alone. Write them "
      "in a replica function, or assign the whole.");
  const bool alone = in_replica && is_local(state);
  check_scatter(state, write, slices, !(alone && is_on_read));
  if (alone)
    scatter_one(state, own_component(state, *top->replica_context()), write, slices);
  else if (const auto updated = updated_component(state))
    scatter_one(state, *updated, write, slices);
  else if (in_replica) {
    ReplicaContext& context = *top->replica_context();
    check_writable_in_replica(state, write, context);
    context.merge_call_as(
        name(write),
        [&](Strategy&, const PerReplica<IndexedSlices>& all,
            const PerReplica<const VariableState*>& variables) {
          check_same_variable(variables, write);
          StrategyState::of(variable.strategy()).agree_on_variable(name(write), state.name());
          scatter_all(state, write, aggregate(variable, write, all));
        },
        slices, static_cast<const VariableState*>(&state));
  } else {
    in_writing_context(state, name(write), [&] {
      if (is_on_read)
        scatter_one(state, 0, write, slices);
      else
        scatter_all(state, write, slices);
    });
  }
}

void scatter_add_once(Variable& variable, const IndexedSlices& rows) {
  write_variable(variable, Write::scatter_add, rows, SumWrite::once);
}

}  // namespace lockstep::detail
