#include "strategy/variable/variable_state.hpp"

#include <algorithm>
#include <mutex>
#include <new>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/stream.hpp>

#include "detail/expects.hpp"
#include "strategy/context/context.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/strategy_state.hpp"

/// A variable's components, and who may touch them.
namespace lockstep::detail {

namespace {

std::vector<Device> devices_of(const std::vector<Tensor>& components) {
  std::vector<Device> devices;
  for (const Tensor& component : components) devices.push_back(component.device());
  return devices;
}

}  // namespace

VariableComponent::~VariableComponent() {
  if (mutex.is_lost()) new (std::nothrow) Tensor(std::move(tensor));
}

/// Whether it is read or written in a capture: of its own device's stream, or of another's, which may copy
/// it.
bool VariableComponent::notes_capture() const {
  const bool is_captured = device->is_capturing(current_stream(*device).handle()) ||
                           detail::is_in_capture(device->device().kind());
  is_in_graph_ = is_in_graph_ || is_captured;
  return is_captured;
}

Tensor VariableComponent::snapshot() const { return !notes_capture() && stays() ? tensor.clone() : tensor; }

void VariableComponent::begin_write() {
  notes_capture();
  LOCKSTEP_EXPECTS(!stays() || !tensor.is_shared(), Unsupported, "Writing a variable on ", tensor.device(),
                   ": a tensor of its value() is held, so that the write would move the variable to memory "
                   "where launches of the graph that uses it do not find it. Drop that tensor, or keep a "
                   "clone().");
  ++num_writes_;
}

std::optional<std::uint64_t> VariableComponent::num_writes() const {
  return stays() ? std::nullopt : std::optional(num_writes_);
}

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
      is_synchronised(strategy.state_->kind.synchronises),
      is_sync_on_read(synchronization == VariableSynchronization::on_read && is_one_per_replica &&
                      is_synchronised),
      strategy_(strategy),
      life_(life_of(strategy)) {
  for (std::size_t i = 0; i < components.size(); ++i) {
    components[i].tensor = std::move(components_[i]);
    components[i].device = &current_stream(devices[i]).device_backend();
  }
}

Tensor VariableState::read(std::size_t i) const {
  if (const VariableUpdate* const update = VariableUpdate::of(*this)) return update->values[i].clone();
  const std::lock_guard lock(components[i].mutex);
  return components[i].snapshot();
}

std::optional<std::uint64_t> VariableState::num_writes(std::size_t i) const {
  if (VariableUpdate::of(*this) != nullptr) return {};
  const std::lock_guard lock(components[i].mutex);
  return components[i].num_writes();
}

bool VariableState::is_component(const Tensor& value) const {
  return std::ranges::any_of(components, [&](const VariableComponent& component) {
    const std::lock_guard lock(component.mutex);
    return component.tensor.is_same_object(value);
  });
}

RecycledVector<Tensor> VariableState::snapshot(const Variable& variable) {
  VariableState& state = *of(variable);
  state.check_readable();
  const LockedComponents locked(state);
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
  for (; frame != nullptr && frame->mode() != ContextFrame::Mode::replica; frame = frame->outer())
    if (frame->update() != nullptr && &frame->update()->state == &state) return frame->update();
  return nullptr;
}

std::optional<std::size_t> updated_component(const VariableState& state) noexcept {
  const ContextFrame* const top = ContextFrame::top();
  if (top == nullptr || top->mode() != ContextFrame::Mode::update || &top->strategy() != &state.strategy())
    return {};
  if (state.components.size() == 1) return 0;
  if (top->update() != nullptr && top->update()->values.size() == 1) return {};
  return static_cast<std::size_t>(top->update_index());
}

void in_writing_context(const VariableState& state, std::string_view what, FunctionRef<void()> fn) {
  const ContextFrame* const top = ContextFrame::top();
  Strategy& strategy = state.strategy();
  if (top == nullptr || &strategy != &default_strategy() || &top->strategy() == &default_strategy()) {
    if (top != nullptr && &top->strategy() != &strategy)  // refused: which variable it is takes memory to say
      strategy.extended().check_cross_replica(concat(what, " of the variable '", state.name, "'"));
    return strategy.extended().in_cross_replica_context(what, fn);
  }
  LOCKSTEP_EXPECTS(top->mode() != ContextFrame::Mode::replica, ContextError, what, " of the variable '",
                   state.name, "' in replica ", top->replica_context()->replica_id_in_sync_group(),
                   "'s function: it was made outside every scope, so that the replicas would race for it. "
                   "Make it in the strategy's scope, or write it outside run.");
  fn();
}

RecycledVector<ComponentRef> all_components(VariableState& state) {
  RecycledVector<ComponentRef> components;
  components.reserve(state.components.size());
  for (std::size_t i = 0; i < state.components.size(); ++i) components.push_back({&state, i});
  return components;
}

LockedComponents::LockedComponents(VariableState& state) : LockedComponents(all_components(state)) {}

LockedComponents::LockedComponents(std::span<const ComponentRef> components) {
  components_.reserve(components.size());
  mutexes_.reserve(components.size());
  for (const auto& [state, i] : components) {
    VariableUpdate* const update = VariableUpdate::of(*state);
    VariableComponent& component = state->components[i];
    if (update != nullptr) {
      components_.push_back({&update->values[i], nullptr});
    } else {
      components_.push_back({&component.tensor, &component});
      mutexes_.push_back(&component.mutex);
    }
  }
  std::ranges::sort(mutexes_);
  mutexes_.erase(std::unique(mutexes_.begin(), mutexes_.end()), mutexes_.end());
  for (const Mutex* const mutex : mutexes_) mutex->check();  // before any is locked
  for (Mutex* const mutex : mutexes_) mutex->lock();
}

LockedComponents::~LockedComponents() {
  for (Mutex* const mutex : mutexes_) mutex->unlock();
}

Tensor LockedComponents::snapshot(std::size_t k) const {
  const auto& [tensor, component] = components_[k];
  return component == nullptr ? tensor->clone() : component->snapshot();
}

void LockedComponents::begin_write(std::size_t k) {
  if (components_[k].component != nullptr) components_[k].component->begin_write();
}

std::optional<std::uint64_t> LockedComponents::num_writes(std::size_t k) const {
  const VariableComponent* const component = components_[k].component;
  return component == nullptr ? std::nullopt : component->num_writes();
}

Tensor LockedComponents::room(std::size_t k, Room room) {
  begin_write(k);
  if (!is_held(k)) return {};
  const Tensor& tensor = *components_[k].tensor;
  return room == Room::copied ? tensor.clone()
                              : Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device());
}

void LockedComponents::replace(std::span<Tensor> values) {
  for (std::size_t k = 0; k < size(); ++k) {
    const auto& [tensor, component] = components_[k];
    if (!values[k].defined()) continue;
    if (component == nullptr || component->stays())
      tensor->copy_(values[k]);  // an update's function holds the tensor itself
    else
      std::swap(*tensor, values[k]);  // memory is freed when the lock is
  }
}

void LockedComponents::make_room(Room room) {
  RecycledVector<Tensor> rooms;
  rooms.reserve(size());
  for (std::size_t k = 0; k < size(); ++k) rooms.push_back(this->room(k, room));
  replace(rooms);
}

}  // namespace lockstep::detail
