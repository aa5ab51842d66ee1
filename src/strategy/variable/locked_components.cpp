#include "strategy/variable/locked_components.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <lockstep/detail/context_frame.hpp>
#include <lockstep/stream.hpp>

#include "detail/concat.hpp"
#include "strategy/strategy_access.hpp"
#include "strategy/variable/variable_state.hpp"

namespace lockstep::detail {

RecycledVector<ComponentRef> all_components(VariableState& state) {
  RecycledVector<ComponentRef> components;
  components.reserve(state.num_components());
  for (std::size_t i = 0; i < state.num_components(); ++i) components.push_back({&state, i});
  return components;
}

void change_together(std::string_view what, std::span<const ComponentRef> components,
                     FunctionRef<void()> change) {
  const auto is_captured = [](const ComponentRef& component) {
    const StreamRef stream = current_stream(component.state->devices()[component.i]);
    return stream.device_backend().is_capturing(stream.handle());
  };
  try {
    change();
  } catch (const std::exception& error) {
    if (std::ranges::none_of(components, is_captured))
      abandon(components.front().state->strategy(),
              concat(what, " of the variable '", components.front().state->name(),
                     "' has failed halfway: ", error.what()));
    throw;
  }
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
  if (state.num_components() == 1) return 0;
  if (top->update() != nullptr && top->update()->values.size() == 1) return {};
  return static_cast<std::size_t>(top->update_index());
}

LockedComponents::LockedComponents(VariableState& state) : LockedComponents(all_components(state)) {}

LockedComponents::LockedComponents(std::span<const ComponentRef> components) {
  components_.reserve(components.size());
  mutexes_.reserve(components.size());
  for (const auto& [state, i] : components) {
    VariableUpdate* const update = VariableUpdate::of(*state);
    VariableComponent& component = state->component(i);
    if (update != nullptr) {
      components_.push_back({&update->values[i], nullptr});
    } else {
      components_.push_back({&component.tensor(), &component});
      mutexes_.push_back(&component.mutex());
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

void LockedComponents::begin_counted_write(std::size_t k) {
  if (components_[k].component != nullptr) components_[k].component->begin_counted_write();
}

std::optional<std::uint64_t> LockedComponents::num_writes(std::size_t k) const {
  const VariableComponent* const component = components_[k].component;
  return component == nullptr ? std::nullopt : component->num_writes();
}

Tensor LockedComponents::unshared(std::size_t k, Storage storage) {
  begin_write(k);
  if (!is_shared(k)) return {};
  const Tensor& tensor = *components_[k].tensor;
  return storage == Storage::copied ? tensor.clone()
                                    : Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device());
}

void LockedComponents::replace(std::span<Tensor> values) {
  for (std::size_t k = 0; k < size(); ++k) {
    const auto& [tensor, component] = components_[k];
    if (!values[k].defined()) continue;
    if (component == nullptr || component->stays())
      tensor->copy_(values[k]);  // an update's function holds the tensor itself
    else
      std::swap(*tensor, values[k]);  // memory is freed after the lock
  }
}

void LockedComponents::unshare(Storage storage) {
  RecycledVector<Tensor> tensors;
  tensors.reserve(size());
  for (std::size_t k = 0; k < size(); ++k) tensors.push_back(unshared(k, storage));
  replace(tensors);
}

}  // namespace lockstep::detail
