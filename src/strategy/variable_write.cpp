#include "strategy/variable_write.hpp"

#include <array>
#include <variant>

#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "strategy/variable_state.hpp"
#include "values/sparse.hpp"

namespace lockstep::detail {

void check_fits(const VariableState& state, const Tensor& value, std::string_view what) {
  LOCKSTEP_EXPECTS(value.dtype() == state.dtype && value.shape() == state.shape, InvalidArgument, what,
                   " of the variable '", state.name, "': the value is ", value.shape(), " ", value.dtype(),
                   ", the variable ", state.shape, " ", state.dtype, ". Reshape or cast the value.");
}

const char* name(Write write) {
  static constexpr std::array kNames = {"assign",      "assign_add",    "assign_sub",  "scatter_add",
                                        "scatter_sub", "scatter_mul",   "scatter_div", "scatter_min",
                                        "scatter_max", "scatter_update"};
  return kNames[static_cast<std::size_t>(write)];
}

namespace {

using Mode = ContextFrame::Mode;

/// What a write was given: one value for all components, or one for each.
struct Written {
  std::variant<Scalar, Tensor, Mirrored<Tensor>> value;

  Tensor for_component(std::size_t i, const VariableState& state) const {
    const Device& device = state.devices[i];
    if (const auto* scalar = std::get_if<Scalar>(&value)) {
      Tensor filled = Tensor::empty(Shape(), state.dtype, device);
      filled.fill_(*scalar);
      return filled;
    }
    if (const auto* tensor = std::get_if<Tensor>(&value)) return tensor->to(device);
    const auto& mirrored = std::get<Mirrored<Tensor>>(value);
    return mirrored[mirrored.size() == 1 ? 0 : static_cast<int>(i)].to(device);
  }
};

void write_component(VariableState& state, LockedComponents& locked, std::size_t i, Write write,
                     const Written& written) {
  Tensor& component = locked[i];
  DeviceScope here(state.devices[i]);
  if (write == Write::assign) {
    if (locked.is_held(i)) component = Tensor::empty(state.shape, state.dtype, state.devices[i]);
    if (const auto* scalar = std::get_if<Scalar>(&written.value))
      component.fill_(*scalar);
    else
      component.copy_(written.for_component(i, state));
    return;
  }
  const Tensor value = written.for_component(i, state);
  if (locked.is_held(i)) {
    component = write == Write::assign_add ? component + value : component - value;
  } else {
    write == Write::assign_add ? component.add_(value) : component.sub_(value);
  }
}

void write_component(VariableState& state, std::size_t i, Write write, const Written& written) {
  LockedComponents locked(state, i);
  write_component(state, locked, i, write, written);
}

void check_written(const VariableState& state, Write write, const Written& written) {
  if (const auto* tensor = std::get_if<Tensor>(&written.value)) check_fits(state, *tensor, name(write));
  if (const auto* mirrored = std::get_if<Mirrored<Tensor>>(&written.value)) {
    LOCKSTEP_EXPECTS(mirrored->size() == 1 || mirrored->size() == static_cast<int>(state.components.size()),
                     InvalidArgument, name(write), " of the variable '", state.name,
                     "': the mirrored value has ", mirrored->size(), " components, the variable ",
                     state.components.size(), ". Pass a value of this variable's strategy.");
    for (const Tensor& component : *mirrored) check_fits(state, component, name(write));
  }
}

/// The replicas' values as one, by the variable's aggregation. Called in a merge call.
Written aggregate(const Variable& variable, Write write, const PerReplica<Tensor>& values) {
  const VariableState& state = *VariableState::of(variable);
  const int n = values.size();
  const bool same = values.is_same_object();
  if (n == 1) return {values[0]};
  switch (state.aggregation) {
    case VariableAggregation::sum:
      LOCKSTEP_EXPECTS(!same, InvalidArgument, name(write), " of the variable '", state.name,
                       "' with aggregation sum: every replica gave the same object, whose sum over ", n,
                       " replicas is hardly meant. Give each replica's own Tensor.");
      return {state.strategy().extended().reduce_to(ReduceOp::sum, values, variable)};
    case VariableAggregation::mean:
      if (same) return {values[0]};
      LOCKSTEP_EXPECTS(is_floating(state.dtype), InvalidArgument, name(write), " of the variable '",
                       state.name, "' with aggregation mean: it holds ", state.dtype,
                       ", and the replicas gave different Tensors. ",
                       "Use a floating dtype, or another aggregation.");
      return {state.strategy().extended().reduce_to(ReduceOp::mean, values, variable)};
    case VariableAggregation::only_first_replica:
    case VariableAggregation::none: break;  // none was refused before the merge call
  }
  return {values[0]};
}

Written aggregate(const Variable& variable, Write write, const PerReplica<Scalar>& values) {
  const VariableState& state = *VariableState::of(variable);
  const bool only_first = state.aggregation == VariableAggregation::only_first_replica;
  for (int i = 1; i < values.size() && !only_first; ++i)
    LOCKSTEP_EXPECTS(values[i] == values[0], InvalidArgument, name(write), " of the variable '", state.name,
                     "': replica ", i,
                     " gave another host scalar than replica 0, but a host scalar stands for the same object "
                     "on all replicas. ",
                     "Pass Tensor::scalar(...).");
  LOCKSTEP_EXPECTS(
      state.aggregation != VariableAggregation::sum || values.size() == 1 || values[0].as<double>() == 0,
      InvalidArgument, name(write), " of the variable '", state.name,
      "' with aggregation sum: every replica gave the same host scalar, whose sum over ", values.size(),
      " replicas is hardly meant. Pass Tensor::scalar(...) to add up one for each replica.");
  return {values[0]};
}

void write_all(VariableState& state, Write write, const Written& written) {
  check_written(state, write, written);
  LockedComponents locked(state);
  for (std::size_t i = 0; i < state.components.size(); ++i) write_component(state, locked, i, write, written);
}

/// Shares of an on_read variable's components in a sum that is to be `written`: equal, of integers the
/// quotient, and one of the remainder for each of the first replicas.
std::vector<Tensor> shares(const VariableState& state, const Written& written) {
  const std::size_t n = state.components.size();
  reduced_dtype(ReduceOp::sum, state.dtype);  // refuses booleans
  Tensor rest = Tensor::empty(state.shape, state.dtype, state.devices[0]);
  if (const auto* scalar = std::get_if<Scalar>(&written.value))
    rest.fill_(*scalar);
  else
    rest = written.for_component(0, state);
  std::vector<Tensor> parts(n);
  for (std::size_t i = n; i-- > 0;) {
    if (!is_integer(state.dtype)) {
      parts[i] = divided(rest, static_cast<double>(n));
    } else if (i > 0) {
      parts[i] = divided(rest, static_cast<double>(i + 1)).cast(state.dtype);
      rest = rest - parts[i];
    } else {
      parts[i] = rest;
    }
  }
  return parts;
}

/// A write of an on_read variable from outside the replicas.
void write_components(VariableState& state, Write write, const Written& written) {
  check_written(state, write, written);
  if (!state.is_sync_on_read || state.aggregation != VariableAggregation::sum)
    return write_all(state, write, written);
  LOCKSTEP_EXPECTS(write == Write::assign, InvalidArgument, name(write), " of the variable '", state.name,
                   "' outside its replicas: it is on_read with aggregation sum, and which component should "
                   "change is undefined. Use assign, or write it in a replica function.");
  const std::vector<Tensor> parts = shares(state, written);
  LockedComponents locked(state);
  for (std::size_t i = 0; i < parts.size(); ++i) write_component(state, locked, i, write, {parts[i]});
}

}  // namespace

void check_same_variable(const PerReplica<std::uint64_t>& variables, Write write) {
  const auto name_of = [&](int i) -> const std::string& {
    return reinterpret_cast<const VariableState*>(static_cast<std::uintptr_t>(variables[i]))->name;
  };
  for (int i = 1; i < variables.size(); ++i)
    LOCKSTEP_EXPECTS(variables[i] == variables[0], CollectiveMismatch, "replica ", i, " calls ", name(write),
                     " of the variable '", name_of(i), "' where replica 0 calls that of '", name_of(0),
                     "'. Make the same calls in the same order on every replica.");
}

void check_writable_in_replica(const VariableState& state, Write write, const ReplicaContext& context) {
  LOCKSTEP_EXPECTS(state.aggregation != VariableAggregation::none, InvalidArgument, name(write),
                   " of the variable '", state.name, "' in replica ", context.replica_id_in_sync_group(),
                   "'s function, but its aggregation is none. ",
                   "Make it with .aggregation = sum, mean or only_first_replica, or write it outside run.");
}

namespace {

/// A write that all replicas make: the values are aggregated, and every component takes the result.
template <class Value>
void write_in_replica(Variable& variable, Write write, const Value& value, ReplicaContext& context) {
  VariableState& state = *VariableState::of(variable);
  check_writable_in_replica(state, write, context);
  if constexpr (std::is_same_v<Value, Tensor>) check_fits(state, value, name(write));
  context.merge_call_as(
      name(write),
      [&](Strategy&, const PerReplica<Value>& values, const PerReplica<std::uint64_t>& variables) {
        check_same_variable(variables, write);
        write_all(state, write, aggregate(variable, write, values));
      },
      value, std::uint64_t{reinterpret_cast<std::uintptr_t>(&state)});
}

/// Whether a write in a replica function concerns that replica alone.
bool is_local(const VariableState& state) {
  const bool is_only_replica = state.strategy().num_replicas_in_sync() == 1;
  return state.is_sync_on_read ||
         (state.synchronization == VariableSynchronization::on_read && is_only_replica);
}

/// A write in the context at hand.
template <class Value>
void write_here(Variable& variable, Write write, const Value& value) {
  VariableState& state = *VariableState::of(variable);
  const ContextFrame* top = ContextFrame::top();
  const bool in_own = top != nullptr && &top->strategy() == &state.strategy();
  const auto component = [&](int i) { return state.components.size() > 1 ? static_cast<std::size_t>(i) : 0; };
  if (in_own && top->mode() == Mode::update) {
    check_written(state, write, {value});
    write_component(state, component(top->update_index()), write, {value});
  } else if (in_own && top->mode() == Mode::replica) {
    const int replica = top->replica_context()->local_index();
    if (is_local(state)) {
      check_written(state, write, {value});
      write_component(state, component(replica), write, {value});
    } else if constexpr (std::is_same_v<Value, Mirrored<Tensor>>) {  // takes part as this replica's component
      write_here(variable, write, static_cast<Tensor>(value));
    } else {
      write_in_replica(variable, write, value, *top->replica_context());
    }
  } else {
    state.strategy().extended().in_cross_replica_context(name(write),
                                                         [&] { write_components(state, write, {value}); });
  }
}

}  // namespace

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
