#include "strategy/variable/variable_write.hpp"

#include <array>
#include <functional>
#include <span>
#include <variant>

#include <lockstep/error.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"
#include "strategy/context/context.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/strategy_access.hpp"
#include "strategy/variable/locked_components.hpp"
#include "strategy/variable/shares.hpp"
#include "strategy/variable/variable_access.hpp"
#include "strategy/variable/variable_state.hpp"

namespace lockstep::detail {

void check_fits(const VariableState& state, const Tensor& value, std::string_view what) {
  LOCKSTEP_EXPECTS(value.dtype() == state.dtype() && value.shape() == state.shape(), InvalidArgument, what,
                   " of the variable '", state.name(), "': the value is ", value.shape(), " ", value.dtype(),
                   ", the variable ", state.shape(), " ", state.dtype(), ". Reshape or cast the value.");
}

void in_writing_context(const VariableState& state, std::string_view what, FunctionRef<void()> fn) {
  const ContextFrame* const top = ContextFrame::top();
  Strategy& strategy = state.strategy();
  if (top == nullptr || &strategy != &default_strategy() || &top->strategy() == &default_strategy()) {
    if (top != nullptr && &top->strategy() != &strategy)  // refused; the message takes memory
      check_cross_replica(strategy, concat(what, " of the variable '", state.name(), "'"));
    return call_serialised(strategy, what, fn);
  }
  LOCKSTEP_EXPECTS(top->mode() != ContextFrame::Mode::replica, ContextError, what, " of the variable '",
                   state.name(), "' in replica ", top->replica_context()->replica_id_in_sync_group(),
                   "'s function: it was made outside every scope, so that the replicas would race for it. "
                   "Make it in the strategy's scope, or write it outside run.");
  fn();
}

const char* name(Write write) {
  static constexpr std::array kNames = {"assign",      "assign_add",    "assign_sub",  "scatter_add",
                                        "scatter_sub", "scatter_mul",   "scatter_div", "scatter_min",
                                        "scatter_max", "scatter_update"};
  return kNames[static_cast<std::size_t>(write)];
}

namespace {

using Mode = ContextFrame::Mode;

/// The argument of a write: one value for all components, or one for each.
struct WriteArgument {
  std::variant<Scalar, Tensor, Mirrored<Tensor>> value;

  std::variant<Scalar, Tensor> for_component(std::size_t i) const {
    if (const auto* scalar = std::get_if<Scalar>(&value)) return *scalar;
    if (const auto* tensor = std::get_if<Tensor>(&value)) return *tensor;
    const auto& mirrored = std::get<Mirrored<Tensor>>(value);
    return mirrored[mirrored.size() == 1 ? 0 : static_cast<int>(i)];
  }
};

/// The write of one component.
struct ComponentWrite {
  ComponentRef component;
  std::variant<Scalar, Tensor> value;
};
using ComponentWrites = RecycledVector<ComponentWrite>;

void add_to(ComponentWrites& writes, VariableState& state, const WriteArgument& argument) {
  for (const ComponentRef& component : all_components(state))
    writes.push_back({component, argument.for_component(component.i)});
}

/// A number as a tensor of rank 0.
Tensor filled(const Scalar& scalar, DType dtype, const Device& device) {
  Tensor tensor = Tensor::empty(Shape(), dtype, device);
  return tensor.fill_(scalar);
}

/// The argument in a form that lets the write take no memory. Empty: the number, which is filled in.
Tensor operand(Write write, const ComponentWrite& argument) {
  const auto& [state, i] = argument.component;
  if (const auto* scalar = std::get_if<Scalar>(&argument.value))
    return write == Write::assign ? Tensor() : filled(*scalar, state->dtype(), state->devices()[i]);
  const Tensor value = std::get<Tensor>(argument.value).contiguous();
  const Device& device = state->devices()[i];
  const bool is_copied = write == Write::assign && value.shape() == state->shape();
  return is_copied && value.device().kind() != device.kind() ? value : value.to(device);
}

/// Writes components of one variable or several in one moment, all or none: memory is taken first.
/// @param strategy  its replicas' threads write, each its own components, if these are many bytes; null: this
/// thread does.
void write_together(Write write, const ComponentWrites& writes, Strategy* strategy) {
  RecycledVector<ComponentRef> components;
  RecycledVector<Tensor> operands, storage(writes.size());
  std::int64_t bytes = 0;
  for (const ComponentWrite& one : writes) {
    const VariableState& state = *one.component.state;
    components.push_back(one.component);
    operands.push_back(operand(write, one));
    if (one.component.i == 0)
      bytes += state.shape().size() * static_cast<std::int64_t>(size_of(state.dtype()));
    if (!state.is_one_per_replica()) strategy = nullptr;
  }
  const auto for_each = [&](const auto& act) {
    const auto write_replicas = [&](int replica) {
      for (std::size_t k = 0; k < writes.size(); ++k)
        if (components[k].i == static_cast<std::size_t>(replica)) act(k);
    };
    if (strategy != nullptr) return for_each_replica(*strategy, bytes, write_replicas);
    for (std::size_t k = 0; k < writes.size(); ++k) act(k);
  };
  LockedComponents locked(components);
  using Storage = LockedComponents::Storage;
  for_each([&](std::size_t k) {
    storage[k] = locked.unshared(k, write == Write::assign ? Storage::uninitialised : Storage::copied);
  });
  locked.replace(storage);
  const auto change = [&](std::size_t k) {
    Tensor& component = locked[k];
    const DeviceScope here(component.device());
    if (write == Write::assign_add)
      component.add_(operands[k]);
    else if (write == Write::assign_sub)
      component.sub_(operands[k]);
    else if (operands[k].defined())
      component.copy_(operands[k]);
    else
      component.fill_(std::get<Scalar>(writes[k].value));
  };
  change_together(name(write), components, [&] { for_each(change); });
}

void check_written(const VariableState& state, Write write, const WriteArgument& argument) {
  if (const auto* scalar = std::get_if<Scalar>(&argument.value))
    LOCKSTEP_EXPECTS(scalar->fits(state.dtype()), InvalidArgument, name(write), " of the variable '",
                     state.name(), "': the number ", *scalar, " does not fit ", state.shape(), " ",
                     state.dtype(), ". Pass one that the dtype can hold.");
  if (const auto* tensor = std::get_if<Tensor>(&argument.value)) check_fits(state, *tensor, name(write));
  if (const auto* mirrored = std::get_if<Mirrored<Tensor>>(&argument.value)) {
    const auto num_components = static_cast<int>(state.num_components());
    LOCKSTEP_EXPECTS(num_components == 1 || mirrored->size() == 1 || mirrored->size() == num_components,
                     InvalidArgument, name(write), " of the variable '", state.name(),
                     "': the mirrored value has ", mirrored->size(), " components, the variable ",
                     state.num_components(), ". Pass a value of this variable's strategy.");
    for (const Tensor& component : *mirrored) check_fits(state, component, name(write));
  }
}

/// The replicas' values as one, by the variable's aggregation. @pre in a merge call.
WriteArgument aggregate(const Variable& variable, Write write, const PerReplica<Tensor>& values) {
  const VariableState& state = *VariableAccess::state(variable);
  StrategyState& strategy = StrategyState::of(state.strategy());
  const int n = strategy.num_replicas();
  // Of several workers, each has an object of its own.
  const bool same = values.is_same_object() && strategy.workers() == nullptr;
  if (n == 1) return {values[0]};
  switch (state.aggregation()) {
    case VariableAggregation::sum:
      LOCKSTEP_EXPECTS(!same, InvalidArgument, name(write), " of the variable '", state.name(),
                       "' with aggregation sum: every replica gave the same object, whose sum over ", n,
                       " replicas is hardly meant. Give each replica's own Tensor.");
      return {state.strategy().extended().reduce_to(ReduceOp::sum, values, variable)};
    case VariableAggregation::mean:
      if (same) return {values[0]};
      return {state.strategy().extended().reduce_to(ReduceOp::mean, values, variable)};
    case VariableAggregation::only_first_replica:
    case VariableAggregation::none: break;  // none was refused before the merge call
  }
  return {strategy.from_chief(values[0])};
}

WriteArgument aggregate(const Variable& variable, Write write, const PerReplica<Scalar>& values) {
  const VariableState& state = *VariableAccess::state(variable);
  const StrategyState& strategy = StrategyState::of(state.strategy());
  const int n = strategy.num_replicas();
  const bool only_first = state.aggregation() == VariableAggregation::only_first_replica;
  for (int i = 1; i < values.size() && !only_first; ++i)
    LOCKSTEP_EXPECTS(values[i] == values[0], InvalidArgument, name(write), " of the variable '", state.name(),
                     "': replica ", strategy.first_replica() + i, " gave another host scalar than replica ",
                     strategy.first_replica(),
                     ", but a host scalar stands for the same object "
                     "on all replicas. ",
                     "Pass Tensor::scalar(...).");
  LOCKSTEP_EXPECTS(state.aggregation() != VariableAggregation::sum || n == 1 || values[0].as<double>() == 0,
                   InvalidArgument, name(write), " of the variable '", state.name(),
                   "' with aggregation sum: every replica gave the same host scalar, whose sum over ", n,
                   " replicas is hardly meant. Pass Tensor::scalar(...) to add up one for each replica.");
  return {values[0]};
}

/// Adds the component writes of a write outside the replicas.
void add_outside_replicas(ComponentWrites& writes, VariableState& state, Write write,
                          const WriteArgument& argument, SumWrite sum_write) {
  if (!state.is_sync_on_read() || state.aggregation() != VariableAggregation::sum)
    return add_to(writes, state, argument);
  if (sum_write == SumWrite::once) return writes.push_back({{&state, 0}, argument.for_component(0)});
  LOCKSTEP_EXPECTS(write == Write::assign, InvalidArgument, name(write), " of the variable '", state.name(),
                   "' outside its replicas: it is on_read with aggregation sum, and which component should "
                   "change is undefined. Use assign, or write it in a replica function.");
  const StrategyState& strategy = StrategyState::of(state.strategy());
  const auto value = argument.for_component(0);
  const auto* scalar = std::get_if<Scalar>(&value);
  const Tensor whole = scalar != nullptr ? filled(*scalar, state.dtype(), cpu_0()) : std::get<Tensor>(value);
  add_to(writes, state,
         {ValueAccess::mirrored(
             shares(whole, state.devices(), strategy.first_replica(), strategy.num_replicas()))});
}

}  // namespace

void check_same_variable(const PerReplica<const VariableState*>& variables, Write write) {
  const auto name_of = [&](int i) -> const std::string& { return variables[i]->name(); };
  const int first = StrategyState::of(variables[0]->strategy()).first_replica();
  for (int i = 1; i < variables.size(); ++i)
    LOCKSTEP_EXPECTS(variables[i] == variables[0], CollectiveMismatch, name(write), " of the variable '",
                     name_of(i), "': replica ", first + i, " calls it where replica ", first,
                     " calls that of '", name_of(0),
                     "'. Make the same calls in the same order on every replica.");
}

void check_writable_in_replica(const VariableState& state, Write write, const ReplicaContext& context) {
  LOCKSTEP_EXPECTS(state.aggregation() != VariableAggregation::none, InvalidArgument, name(write),
                   " of the variable '", state.name(), "' in replica ", context.replica_id_in_sync_group(),
                   "'s function, but its aggregation is none. ",
                   "Make it with .aggregation = sum, mean or only_first_replica, or write it outside run.");
}

bool is_local(const VariableState& state) {
  const bool is_only_replica = state.strategy().num_replicas_in_sync() == 1;
  return !state.is_synchronised() || state.is_sync_on_read() ||
         (state.synchronization() == VariableSynchronization::on_read && is_only_replica);
}

std::size_t own_component(const VariableState& state, const ReplicaContext& context) {
  return state.num_components() == 1 ? 0 : static_cast<std::size_t>(context.local_index());
}

namespace {

/// A write that all replicas make: the values are aggregated, and every component takes the result.
/// @pre lists that begin with one variable are the same, as a metric's sums are.
template <class Value>
void write_in_replica(std::span<const Variable> variables, Write write, std::span<const Value> values,
                      ReplicaContext& context) {
  for (const Variable& variable : variables)
    check_writable_in_replica(*VariableAccess::state(variable), write, context);
  const auto write_merged = [&](Strategy& strategy, const PerReplica<const Value*>& lists,
                                const PerReplica<const VariableState*>& firsts) {
    check_same_variable(firsts, write);
    StrategyState::of(strategy).agree_on_variable(name(write), VariableAccess::state(variables[0])->name());
    ComponentWrites writes;
    for (std::size_t v = 0; v < variables.size(); ++v) {
      RecycledVector<const Value*> parts;
      for (const Value* const list : lists) parts.push_back(list + v);
      add_to(writes, *VariableAccess::state(variables[v]),
             aggregate(variables[v], write, merge(parts, name(write))));
    }
    write_together(write, writes, &strategy);
  };
  const VariableState* const first = VariableAccess::state(variables[0]).get();
  context.merge_call_as(name(write), write_merged, values.data(), first);
}

/// Writes of variables of one strategy, in replica functions all local or none, in the current context.
template <class Value>
void write_here(std::span<const Variable> variables, Write write, std::span<const Value> values,
                SumWrite sum_write = SumWrite::refused) {
  for (std::size_t v = 0; v < variables.size(); ++v)
    check_written(*VariableAccess::state(variables[v]), write, {values[v]});
  const VariableState& first = *VariableAccess::state(variables[0]);
  const ContextFrame* const top = ContextFrame::top();
  const bool in_replica =
      top != nullptr && &top->strategy() == &first.strategy() && top->mode() == Mode::replica;
  if (in_replica && !is_local(first)) {
    if constexpr (std::is_same_v<Value, Mirrored<Tensor>>) {  // this replica contributes its component
      const RecycledVector<Tensor> own(values.begin(), values.end());
      write_here<Tensor>(variables, write, own);
    } else {
      write_in_replica(variables, write, values, *top->replica_context());
    }
    return;
  }
  ComponentWrites writes;
  if (!in_replica && !updated_component(first)) {
    in_writing_context(first, name(write), [&] {
      for (std::size_t v = 0; v < variables.size(); ++v)
        add_outside_replicas(writes, *VariableAccess::state(variables[v]), write, {values[v]}, sum_write);
      write_together(write, writes, &first.strategy());
    });
    return;
  }
  for (std::size_t v = 0; v < variables.size(); ++v) {
    VariableState& state = *VariableAccess::state(variables[v]);
    std::size_t i = 0;
    if (in_replica)
      i = own_component(state, *top->replica_context());
    else if (const auto updated = updated_component(state))
      i = *updated;
    writes.push_back({{&state, i}, WriteArgument{values[v]}.for_component(i)});
  }
  write_together(write, writes, nullptr);
}

template <class Value>
void write_here(const Variable& variable, Write write, const Value& value) {
  write_here<Value>(std::span(&variable, 1), write, std::span(&value, 1));
}

}  // namespace

void assign_variables(std::span<const Variable> variables, std::span<const Tensor> values) {
  write_here(variables, Write::assign, values);
}
void add_once(std::span<const Variable> variables, std::span<const Tensor> values) {
  write_here(variables, Write::assign_add, values, SumWrite::once);
}
void write_variable(Variable& variable, Write write, const Tensor& value) {
  write_here(variable, write, value);
}
void write_variable(Variable& variable, Write write, const Mirrored<Tensor>& value) {
  write_here(variable, write, value);
}
void write_variable(Variable& variable, Write write, const Scalar& value) {
  write_here(variable, write, value);
}
void write_variable(Variable& variable, Write write, const PerReplica<Tensor>& value) {
  LOCKSTEP_EXPECTS(value.size() == 1 || value.is_same_object(), InvalidArgument, name(write),
                   " of the variable '", variable.name(), "': the value is per-replica, with ", value.size(),
                   " components. Combine them first: extended().reduce_to(op, value, variable).");
  write_here(variable, write, value[0]);
}

}  // namespace lockstep::detail
