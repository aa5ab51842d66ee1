#include "strategy/variable_state.hpp"

#include <lockstep/error.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "strategy/strategy_state.hpp"

/// A variable's components, and who may touch them.
namespace lockstep::detail {

namespace {

std::vector<Device> devices_of(const std::vector<Tensor>& components) {
  std::vector<Device> devices;
  for (const Tensor& component : components) devices.push_back(component.device());
  return devices;
}

}  // namespace

VariableState::VariableState(const VariableOptions& options, Strategy& strategy,
                             std::vector<Tensor> components_, bool is_one_per_replica_)
    : name(options.name),
      trainable(options.trainable.value_or(options.synchronization != VariableSynchronization::on_read)),
      synchronization(options.synchronization == VariableSynchronization::on_read
                          ? VariableSynchronization::on_read
                          : VariableSynchronization::on_write),
      aggregation(options.aggregation),
      dtype(components_[0].dtype()),
      shape(components_[0].shape()),
      devices(devices_of(components_)),
      components(components_.size()),
      is_one_per_replica(is_one_per_replica_),
      is_sync_on_read(synchronization == VariableSynchronization::on_read && is_one_per_replica &&
                      strategy.synchronises()),
      strategy_(strategy),
      life_(strategy.state_->life) {
  for (std::size_t i = 0; i < components.size(); ++i) components[i].tensor = std::move(components_[i]);
}

Tensor VariableState::read(std::size_t i) const {
  if (const VariableUpdate* const update = VariableUpdate::of(*this)) return update->values[i].clone();
  const std::lock_guard lock(components[i].mutex);
  return components[i].tensor;
}

std::vector<Tensor> VariableState::snapshot(const Variable& variable) {
  VariableState& state = *of(variable);
  std::vector<Tensor> copies;
  copies.reserve(state.components.size());
  const bool is_updated = VariableUpdate::of(state) != nullptr;
  LockedComponents locked(state);
  for (std::size_t i = 0; i < state.components.size(); ++i)
    copies.push_back((is_updated ? locked[i].clone() : locked[i]).read_only());
  return copies;
}

void VariableState::meet(const ReplicaContext& context, std::string_view operation) const {
  const auto check = [operation](std::span<const Arrival* const> arrivals) {
    const auto variable = [&](std::size_t r) {
      return static_cast<const VariableState*>(arrivals[r]->payload);
    };
    for (std::size_t r = 1; r < arrivals.size(); ++r)
      LOCKSTEP_EXPECTS(variable(r) == variable(0), CollectiveMismatch, operation, ": replica ", r,
                       " names the variable '", variable(r)->name, "' where replica 0 names '",
                       variable(0)->name, "'. Make the same calls in the same order on every replica.");
  };
  StrategyState& own = *strategy().state_;
  own.rendezvous().meet(context.local_index(), {.operation = operation, .payload = this}, check,
                        own.options.timeout);
}

void VariableState::raise_strategy_destroyed() const {
  raise<ContextError>({__FILE__, __LINE__, __func__},
                      concat("Variable '", name,
                             "': the strategy that it was made by has been destroyed. Keep a strategy for as "
                             "long as its variables are used."));
}

void VariableState::raise_moved_from() {
  raise<ContextError>(
      {__FILE__, __LINE__, __func__},
      "Variable: used after it was moved from. Copy the handle instead: it is the same variable.");
}

VariableUpdate* VariableUpdate::of(const VariableState& state) noexcept {
  const ContextFrame* frame = ContextFrame::top();
  for (; frame != nullptr && frame->mode() == ContextFrame::Mode::update; frame = frame->outer())
    if (frame->update() != nullptr && &frame->update()->state == &state) return frame->update();
  return nullptr;
}

LockedComponents::LockedComponents(VariableState& state, std::size_t begin, std::size_t end)
    : state_(state), update_(VariableUpdate::of(state)), begin_(begin), end_(end) {
  if (update_ == nullptr)
    for (std::size_t i = begin_; i < end_; ++i) state_.components[i].mutex.lock();
}

LockedComponents::~LockedComponents() {
  if (update_ == nullptr)
    for (std::size_t i = end_; i-- > begin_;) state_.components[i].mutex.unlock();
}

Tensor& LockedComponents::operator[](std::size_t i) noexcept {
  return update_ != nullptr ? update_->values[i] : state_.components[i].tensor;
}

Tensor& LockedComponents::writable(std::size_t i) {
  Tensor& component = (*this)[i];
  if (is_held(i)) component = component.clone();
  return component;
}

void LockedComponents::replace(std::vector<Tensor>& values) {
  for (std::size_t i = begin_; i < end_; ++i) {
    // In an update, whose function holds the tensor itself, by a copy.
    if (update_ != nullptr)
      (*this)[i].copy_(values[i]);
    else
      std::swap((*this)[i], values[i]);  // memory is freed when the lock is
  }
}

}  // namespace lockstep::detail
