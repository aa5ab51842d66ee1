#include "strategy/variable/variable_state.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/stream.hpp>

#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "strategy/context/context.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/variable/locked_components.hpp"

namespace lockstep::detail {

namespace {

std::vector<Device> devices_of(const std::vector<Tensor>& components) {
  std::vector<Device> devices;
  for (const Tensor& component : components) devices.push_back(component.device());
  return devices;
}

}  // namespace

void VariableComponent::initialise(Tensor tensor) {
  device_ = &current_stream(tensor.device()).device_backend();
  tensor_ = std::move(tensor);
}

VariableComponent::~VariableComponent() {
  if (mutex_.is_lost()) new (std::nothrow) Tensor(std::move(tensor_));
}

/// Whether it is read or written in a capture: of its own device's stream, or of another's, which may copy
/// it.
bool VariableComponent::notes_capture() const {
  const bool is_captured = device_->is_capturing(current_stream(*device_).handle()) ||
                           detail::is_in_capture(device_->device().kind());
  is_in_graph_ = is_in_graph_ || is_captured;
  return is_captured;
}

Tensor VariableComponent::snapshot() const {
  const bool is_copied = notes_capture() ? is_copied_in_graph_ : stays();
  return is_copied ? tensor_.clone() : tensor_;
}

void VariableComponent::require_in_place() {
  // A traced step that holds what it has read is traced once more, and reads a copy; unless others hold it.
  TraceRecorder* const recorder = TraceScope::capturing();
  if (recorder != nullptr && tensor_.is_shared()) {
    is_copied_in_graph_ = !is_copied_in_graph_;
    if (is_copied_in_graph_) recorder->repeat();
  }
  LOCKSTEP_EXPECTS(!stays() || !tensor_.is_shared(), Unsupported, "Writing a variable on ", tensor_.device(),
                   ": a tensor of its value() is held, so that the write would move the variable to memory "
                   "where launches of the graph that uses it do not find it. Drop that tensor, or keep a "
                   "clone().");
}

void VariableComponent::begin_write() {
  const bool is_captured = notes_capture();
  require_in_place();
  is_written_in_graph_ = is_written_in_graph_ || is_captured;
  ++num_writes_;
}

void VariableComponent::begin_counted_write() {
  notes_capture();
  require_in_place();
}

std::optional<std::uint64_t> VariableComponent::num_writes() const {
  return is_written_in_graph_ ? std::nullopt : std::optional(num_writes_);
}

VariableState::VariableState(const VariableOptions& options, Strategy& strategy,
                             std::vector<Tensor> components, bool is_one_per_replica)
    : name_(options.name),
      trainable_(options.trainable.value_or(options.synchronization != VariableSynchronization::on_read)),
      synchronization_(options.synchronization == VariableSynchronization::on_read
                           ? VariableSynchronization::on_read
                           : VariableSynchronization::on_write),
      aggregation_(options.aggregation),
      dtype_(components[0].dtype()),
      shape_(components[0].shape()),
      devices_(devices_of(components)),
      is_one_per_replica_(is_one_per_replica),
      is_synchronised_(StrategyState::of(strategy).kind().synchronises),
      is_sync_on_read_(synchronization_ == VariableSynchronization::on_read && is_one_per_replica_ &&
                       is_synchronised_),
      strategy_(strategy),
      life_(life_of(strategy)),
      components_(components.size()) {
  for (std::size_t i = 0; i < components.size(); ++i) components_[i].initialise(std::move(components[i]));
}

Tensor VariableState::read(std::size_t i) const {
  if (const VariableUpdate* const update = VariableUpdate::of(*this)) return update->values[i].clone();
  const std::lock_guard lock(components_[i].mutex());
  return components_[i].snapshot();
}

std::optional<std::uint64_t> VariableState::num_writes(std::size_t i) const {
  if (VariableUpdate::of(*this) != nullptr) return {};
  const std::lock_guard lock(components_[i].mutex());
  return components_[i].num_writes();
}

bool VariableState::is_component(const Tensor& value) const {
  return std::ranges::any_of(components_, [&](const VariableComponent& component) {
    const std::lock_guard lock(component.mutex());
    return component.tensor().is_same_object(value);
  });
}

RecycledVector<Tensor> VariableState::snapshot() {
  check_readable();
  const LockedComponents locked(*this);
  RecycledVector<Tensor> copies;
  copies.reserve(locked.size());
  for (std::size_t i = 0; i < locked.size(); ++i) copies.push_back(locked.snapshot(i).read_only());
  return copies;
}

void VariableState::meet(const ReplicaContext& context, std::string_view operation) const {
  const auto check = [operation](std::span<const Arrival* const> arrivals) {
    const auto variable = [&](std::size_t r) {
      return static_cast<const VariableState*>(arrivals[r]->payload);
    };
    for (std::size_t r = 1; r < arrivals.size(); ++r)
      LOCKSTEP_EXPECTS(variable(r) == variable(0), CollectiveMismatch, operation, ": replica ", r,
                       " names the variable '", variable(r)->name(), "' where replica 0 names '",
                       variable(0)->name(), "'. Make the same calls in the same order on every replica.");
  };
  StrategyState& own = StrategyState::of(strategy());
  own.groups().rendezvous().meet(context.local_index(), {.operation = operation, .payload = this}, check,
                                 own.options().timeout);
}

void VariableState::raise_strategy_destroyed() const {
  raise<ContextError>({__FILE__, __LINE__, __func__},
                      concat("Variable '", name_,
                             "': the strategy that it was made by has been destroyed. Keep a strategy for as "
                             "long as its variables are used."));
}

}  // namespace lockstep::detail
