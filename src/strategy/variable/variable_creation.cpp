#include "strategy/variable/variable_creation.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include <lockstep/error.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/variable/variable_state.hpp"

namespace lockstep::detail {

namespace {

using Mode = ContextFrame::Mode;

/// A name without the "_3" at the end of each part of its path.
std::string canonical_name(std::string_view name) {
  std::string canonical;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    std::string_view part = name.substr(begin, end - begin);
    const std::size_t last = part.find_last_not_of("0123456789");
    if (last != std::string_view::npos && part[last] == '_' && last + 1 < part.size())
      part = part.substr(0, last);
    canonical += part;
    if (end < name.size()) canonical += '/';
    begin = end + 1;
  }
  return canonical;
}

/// The variable that one replica asks for.
struct Request {
  FunctionRef<Tensor()> initial;
  const VariableOptions& options;
  const Tensor* known;
  int logical_device;
};

}  // namespace

std::shared_ptr<VariableState> VariableState::create(Strategy& strategy, FunctionRef<Tensor()> initial,
                                                     const VariableOptions& options) {
  const bool is_plain = &strategy == &default_strategy();
  const std::vector<Device>* const colocated = ColocationScope::devices_for(strategy);
  const std::vector<Device> devices = is_plain               ? std::vector<Device>{current_device()}
                                      : colocated != nullptr ? *colocated
                                                             : strategy.extended().parameter_devices();
  Tensor value;
  call_in_cross_replica_context(strategy, "the creation of a variable", [&] {
    DeviceScope here(devices[0]);
    value = initial();
  });
  const bool on_read = options.synchronization == VariableSynchronization::on_read;
  LOCKSTEP_EXPECTS(options.aggregation != VariableAggregation::mean || is_floating(value.dtype()),
                   InvalidArgument, "Variable '", options.name, "' with aggregation mean: it would hold ",
                   value.shape(), " ", value.dtype(),
                   ", and a mean of these is none of them. Use a floating dtype, or another aggregation.");
  LOCKSTEP_EXPECTS(!on_read || options.aggregation != VariableAggregation::sum || !is_boolean(value.dtype()),
                   InvalidArgument, "Variable '", options.name,
                   "', on_read with aggregation sum: it would hold ", value.shape(), " ", value.dtype(),
                   ", of which there is no sum to read. Use numbers, or another aggregation.");
  if (!is_plain)
    call_serialised(strategy, "the creation of a variable", [&] {
      StrategyState& own = StrategyState::of(strategy);
      own.agree_on_variable("the creation of a variable", options.name);
      value = own.from_chief(value);
    });
  std::vector<Tensor> components;
  for (const Device& device : devices)
    components.push_back(value.device() == device ? value.clone() : value.to(device).contiguous());

  const bool is_one_per_replica = !is_plain && StrategyState::of(strategy).groups().find(devices) >= 0;
  auto state = std::make_shared<VariableState>(options, strategy, std::move(components), is_one_per_replica);
  if (!is_plain) StrategyState::of(strategy).variables().add(state);
  return state;
}

namespace {

/// The variable that replica 0 asked for, for all.
Variable create_for_all(Strategy& strategy, const PerReplica<const Request*>& requests) {
  const Request& first = *requests[0];
  const int first_id = StrategyState::of(strategy).first_replica();
  const std::string name = canonical_name(first.options.name);
  for (int i = 1; i < requests.size(); ++i) {
    LOCKSTEP_EXPECTS(canonical_name(requests[i]->options.name) == name, ContextError, "Variable '",
                     requests[i]->options.name, "': replica ", first_id + i, " makes it where replica ",
                     first_id, " makes '", first.options.name,
                     "' (mismatching variable creation). Make the same variables in the same order on every "
                     "replica; names may differ in a trailing _number.");
    LOCKSTEP_EXPECTS(requests[i]->logical_device == first.logical_device, ContextError, "Variable '",
                     first.options.name, "': replica ", first_id + i, " makes it on logical device ",
                     requests[i]->logical_device, ", replica 0 on logical device ", first.logical_device,
                     ". Open the same logical_device guards on every replica.");
  }
  const auto state = VariableState::create(strategy, first.initial, first.options);
  for (int i = 1; i < requests.size(); ++i) {
    const Tensor* const known = requests[i]->known;
    LOCKSTEP_EXPECTS(
        known == nullptr || (known->dtype() == state->dtype() && known->shape() == state->shape()),
        InvalidArgument, "Variable '", state->name(), "': replica ", first_id + i, "'s initial value is ",
        known->shape(), " ", known->dtype(), ", replica ", first_id, "'s ", state->shape(), " ",
        state->dtype(), ". Give the same shape and dtype on every replica.");
  }
  return VariableAccess::handle(state);
}

}  // namespace

std::shared_ptr<VariableState> create_variable(FunctionRef<Tensor()> initial, VariableOptions options,
                                               const Tensor* known) {
  if (options.name.empty()) options.name = "Variable";
  LOCKSTEP_EXPECTS(
      options.synchronization != VariableSynchronization::none, InvalidArgument, "Variable '", options.name,
      "': synchronization none is not a way to keep replicas in step. Use automatic, on_write or on_read.");
  require_no_trace(concat("Variable '", options.name, "': it is made"),
                   "Make variables before, or in the first call of the function alone.");
  const ContextFrame* const top = ContextFrame::top();
  Strategy& strategy = get_strategy();
  LOCKSTEP_EXPECTS(
      top == nullptr || !ContextFrame::in_default_scope(), ContextError, "Variable '", options.name,
      "' in the scope of ", strategy.name(),
      " inside the default strategy's scope. Strategies cannot be mixed: leave one of the scopes.");
  if (top == nullptr || top->mode() != Mode::replica)
    return VariableState::create(strategy, initial, options);

  const Request request{initial, options, known, LogicalDeviceScope::current(strategy)};
  const Variable made = top->replica_context()->merge_call_as(
      "the creation of a variable",
      [](Strategy& own, const PerReplica<const Request*>& requests) { return create_for_all(own, requests); },
      &request);
  return VariableAccess::state(made);
}

}  // namespace lockstep::detail
