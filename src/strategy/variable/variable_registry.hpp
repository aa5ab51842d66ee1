#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// The variables that were made in a strategy's scope and still live. Thread-safe.
class VariableRegistry {
 public:
  void add(const std::shared_ptr<VariableState>& variable);
  /// The variable that has this very tensor as a component; null: none.
  std::shared_ptr<VariableState> find_owner(const Tensor& component) const;

 private:
  mutable LeafMutex mutex_;                              // guards the rest
  std::vector<std::weak_ptr<VariableState>> variables_;  // expired ones among them
  std::size_t max_size_ = 16;                            // at this size the expired ones are removed
};

}  // namespace lockstep::detail
