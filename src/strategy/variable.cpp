#include <ostream>
#include <variant>

#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/values/variable.hpp>

#include "strategy/default_strategy.hpp"
#include "strategy/strategy_state.hpp"
#include "strategy/variable_state.hpp"

namespace lockstep {

using detail::ContextFrame;
using detail::VariableState;
using Mode = ContextFrame::Mode;

std::string_view name(VariableSynchronization synchronization) {
  switch (synchronization) {
    case VariableSynchronization::automatic: return "automatic";
    case VariableSynchronization::none: return "none";
    case VariableSynchronization::on_write: return "on_write";
    case VariableSynchronization::on_read: break;
  }
  return "on_read";
}

std::string_view name(VariableAggregation aggregation) {
  switch (aggregation) {
    case VariableAggregation::none: return "none";
    case VariableAggregation::sum: return "sum";
    case VariableAggregation::mean: return "mean";
    case VariableAggregation::only_first_replica: break;
  }
  return "only_first_replica";
}

std::ostream& operator<<(std::ostream& out, VariableSynchronization synchronization) {
  return out << name(synchronization);
}
std::ostream& operator<<(std::ostream& out, VariableAggregation aggregation) {
  return out << name(aggregation);
}

namespace detail {

void check_fits(const VariableState& state, const Tensor& value, std::string_view what) {
  LOCKSTEP_EXPECTS(value.dtype() == state.dtype && value.shape() == state.shape, InvalidArgument, what,
                   " of the variable '", state.name, "': the value is ", value.shape(), " ", value.dtype(),
                   ", the variable ", state.shape, " ", state.dtype, ". Reshape or cast the value.");
}

namespace {

enum class Write : std::uint8_t { assign, assign_add, assign_sub };

std::string_view name(Write write) {
  switch (write) {
    case Write::assign: return "assign";
    case Write::assign_add: return "assign_add";
    case Write::assign_sub: break;
  }
  return "assign_sub";
}

/// What a write was given: one value for all components, or one for each.
struct Written {
  std::variant<Scalar, Tensor, Mirrored<Tensor>> value;

  Tensor for_component(std::size_t i, const VariableState& state) const {
    const Device& device = state.components[i].device();
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

void write_component(VariableState& state, std::size_t i, Write write, const Written& written) {
  Tensor& component = state.components[i];
  DeviceScope here(component.device());
  if (write == Write::assign) {
    if (component.is_shared()) component = Tensor::empty(state.shape, state.dtype, component.device());
    if (const auto* scalar = std::get_if<Scalar>(&written.value))
      component.fill_(*scalar);
    else
      component.copy_(written.for_component(i, state));
    return;
  }
  const Tensor value = written.for_component(i, state);
  if (component.is_shared()) {  // somebody holds a snapshot
    component = write == Write::assign_add ? component + value : component - value;
  } else {
    write == Write::assign_add ? component.add_(value) : component.sub_(value);
  }
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
      return {state.strategy->extended().reduce_to(ReduceOp::sum, values, variable)};
    case VariableAggregation::mean:
      if (same) return {values[0]};
      LOCKSTEP_EXPECTS(is_floating(state.dtype), InvalidArgument, name(write), " of the variable '",
                       state.name, "' with aggregation mean: it holds ", state.dtype,
                       ", and the replicas gave different Tensors. ",
                       "Use a floating dtype, or another aggregation.");
      return {state.strategy->extended().reduce_to(ReduceOp::mean, values, variable)};
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
  for (std::size_t i = 0; i < state.components.size(); ++i) write_component(state, i, write, written);
}

/// @param variables  addresses of the replicas' VariableStates. @param writes  their Writes.
void check_same_write(const PerReplica<std::uint64_t>& variables, const PerReplica<int>& writes) {
  const auto describe_write = [&](int i) {
    const auto& state = *reinterpret_cast<const VariableState*>(static_cast<std::uintptr_t>(variables[i]));
    return concat(name(static_cast<Write>(writes[i])), " of the variable '", state.name, "'");
  };
  for (int i = 1; i < writes.size(); ++i)
    LOCKSTEP_EXPECTS(variables[i] == variables[0] && writes[i] == writes[0], CollectiveMismatch, "replica ",
                     i, " calls ", describe_write(i), " where replica 0 calls ", describe_write(0),
                     ". Make the same calls in the same order on every replica.");
}

/// A write that all replicas make: the values are aggregated, and every component takes the result.
template <class Value>
void write_in_replica(Variable& variable, Write write, const Value& value, ReplicaContext& context) {
  VariableState& state = *VariableState::of(variable);
  LOCKSTEP_EXPECTS(state.aggregation != VariableAggregation::none, InvalidArgument, name(write),
                   " of the variable '", state.name, "' in replica ", context.replica_id_in_sync_group(),
                   "'s function, but its aggregation is none. ",
                   "Make it with .aggregation = sum, mean or only_first_replica, or write it outside run.");
  if constexpr (std::is_same_v<Value, Tensor>) check_fits(state, value, name(write));
  context.merge_call(
      [&](Strategy&, const PerReplica<Value>& values, const PerReplica<std::uint64_t>& variables,
          const PerReplica<int>& writes) {
        check_same_write(variables, writes);
        write_all(state, write, aggregate(variable, write, values));
      },
      value, std::uint64_t{reinterpret_cast<std::uintptr_t>(&state)}, static_cast<int>(write));
}

/// A write in the context at hand.
template <class Value>
void write_variable(Variable& variable, Write write, const Value& value) {
  VariableState& state = *VariableState::of(variable);
  const ContextFrame* top = ContextFrame::top();
  const bool in_own = top != nullptr && &top->strategy() == state.strategy;
  if (in_own && top->mode() == Mode::update) {
    check_written(state, write, {value});
    write_component(state, state.components.size() > 1 ? static_cast<std::size_t>(top->update_index()) : 0,
                    write, {value});
  } else if (in_own && top->mode() == Mode::replica) {
    if constexpr (std::is_same_v<Value, Mirrored<Tensor>>) {  // takes part as this replica's component
      write_variable(variable, write, static_cast<Tensor>(value));
    } else {
      write_in_replica(variable, write, value, *top->replica_context());
    }
  } else {
    state.strategy->extended().in_cross_replica_context(name(write),
                                                        [&] { write_all(state, write, {value}); });
  }
}

void write_per_replica(Variable& variable, Write write, const PerReplica<Tensor>& value) {
  LOCKSTEP_EXPECTS(value.size() == 1 || value.is_same_object(), InvalidArgument, name(write),
                   " of the variable '", variable.name(), "': the value is per-replica, with ", value.size(),
                   " components. Combine them first: extended().reduce_to(op, value, variable).");
  write_variable(variable, write, value[0]);
}

}  // namespace
}  // namespace detail

Variable::Variable(const Tensor& initial_value, VariableOptions options)
    : Variable(std::function<Tensor()>([&] { return initial_value; }), std::move(options), 0) {}

Variable::Variable(std::function<Tensor()> initial_value, VariableOptions options, int) {
  if (options.name.empty()) options.name = "Variable";
  LOCKSTEP_EXPECTS(
      options.synchronization != VariableSynchronization::none, InvalidArgument, "Variable '", options.name,
      "': synchronization none is not a way to keep replicas in step. Use automatic, on_write or on_read.");
  LOCKSTEP_EXPECTS(options.synchronization != VariableSynchronization::on_read, Unsupported, "Variable '",
                   options.name, "': on_read synchronization is not supported. Use on_write.");
  const ContextFrame* top = ContextFrame::top();
  Strategy& strategy = get_strategy();
  LOCKSTEP_EXPECTS(top == nullptr || top->mode() != Mode::replica, Unsupported, "Variable '", options.name,
                   "' in a replica function of ", strategy.name(),
                   ": make it in the strategy's scope, before run.");
  LOCKSTEP_EXPECTS(
      top == nullptr || !ContextFrame::in_default_scope(), ContextError, "Variable '", options.name,
      "' in the scope of ", strategy.name(),
      " inside the default strategy's scope. Strategies cannot be mixed: leave one of the scopes.");

  const std::vector<Device> devices = top == nullptr || !has_strategy()
                                          ? std::vector<Device>{current_device()}
                                          : strategy.extended().parameter_devices();
  const Tensor initial = [&] {
    DeviceScope here(devices[0]);
    return initial_value();
  }();
  std::vector<Tensor> components;
  for (const Device& device : devices)
    components.push_back(initial.device() == device ? initial.clone() : initial.to(device).contiguous());
  state_ = std::make_shared<VariableState>(VariableState{
      std::move(options.name), options.trainable.value_or(true), VariableSynchronization::on_write,
      options.aggregation, initial.dtype(), initial.shape(), &strategy, std::move(components)});
  if (has_strategy()) strategy.remember(state_);
}

const std::string& Variable::name() const { return state_->name; }
bool Variable::trainable() const { return state_->trainable; }
VariableSynchronization Variable::synchronization() const { return state_->synchronization; }
VariableAggregation Variable::aggregation() const { return state_->aggregation; }
DType Variable::dtype() const { return state_->dtype; }
const Shape& Variable::shape() const { return state_->shape; }
Strategy& Variable::strategy() const { return *state_->strategy; }

Tensor Variable::value() const {
  const std::vector<Tensor>& components = state_->components;
  const ContextFrame* top = ContextFrame::top();
  const bool is_plain = state_->strategy == &detail::default_strategy();
  LOCKSTEP_EXPECTS(top == nullptr || is_plain || &top->strategy() == state_->strategy, ContextError,
                   "reading the variable '", state_->name, "' of ", state_->strategy->name(),
                   " inside the scope of another strategy, ", top->strategy().name(),
                   ". Strategies cannot be mixed: leave that scope first.");
  if (top != nullptr && components.size() > 1) {
    if (top->mode() == Mode::replica)
      return components[static_cast<std::size_t>(top->replica_context()->local_index())].read_only();
    if (top->mode() == Mode::update)
      return components[static_cast<std::size_t>(top->update_index())].read_only();
  }
  return components[detail::current_component(components)].read_only();
}

using detail::Write;

Variable& Variable::assign(const Tensor& value) {
  return detail::write_variable(*this, Write::assign, value), *this;
}
Variable& Variable::assign(const PerReplica<Tensor>& value) {
  return detail::write_per_replica(*this, Write::assign, value), *this;
}
Variable& Variable::assign(const Mirrored<Tensor>& value) {
  return detail::write_variable(*this, Write::assign, value), *this;
}
Variable& Variable::assign(const Scalar& value) {
  return detail::write_variable(*this, Write::assign, value), *this;
}
Variable& Variable::assign_add(const Tensor& value) {
  return detail::write_variable(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_add(const PerReplica<Tensor>& value) {
  return detail::write_per_replica(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_add(const Mirrored<Tensor>& value) {
  return detail::write_variable(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_add(const Scalar& value) {
  return detail::write_variable(*this, Write::assign_add, value), *this;
}
Variable& Variable::assign_sub(const Tensor& value) {
  return detail::write_variable(*this, Write::assign_sub, value), *this;
}
Variable& Variable::assign_sub(const PerReplica<Tensor>& value) {
  return detail::write_per_replica(*this, Write::assign_sub, value), *this;
}
Variable& Variable::assign_sub(const Mirrored<Tensor>& value) {
  return detail::write_variable(*this, Write::assign_sub, value), *this;
}
Variable& Variable::assign_sub(const Scalar& value) {
  return detail::write_variable(*this, Write::assign_sub, value), *this;
}

}  // namespace lockstep
