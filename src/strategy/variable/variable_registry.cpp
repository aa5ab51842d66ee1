#include "strategy/variable/variable_registry.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "strategy/variable/variable_state.hpp"

namespace lockstep::detail {

void VariableRegistry::add(const std::shared_ptr<VariableState>& variable) {
  const std::lock_guard lock(mutex_);
  if (variables_.size() >= max_size_) {
    std::erase_if(variables_, [](const auto& weak) { return weak.expired(); });
    max_size_ = std::max(max_size_, 2 * variables_.size());
  }
  variables_.push_back(variable);
}

std::shared_ptr<VariableState> VariableRegistry::find_owner(const Tensor& component) const {
  std::vector<std::shared_ptr<VariableState>> variables;
  {
    const std::lock_guard lock(mutex_);
    variables.reserve(variables_.size());
    for (const auto& weak : variables_)
      if (auto variable = weak.lock()) variables.push_back(std::move(variable));
  }
  for (auto& variable : variables)
    if (variable->is_component(component)) return std::move(variable);
  return nullptr;
}

}  // namespace lockstep::detail
