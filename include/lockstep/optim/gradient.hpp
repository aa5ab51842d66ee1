#pragma once

#include <concepts>
#include <optional>
#include <vector>

#include <lockstep/tensor.hpp>
#include <lockstep/values/indexed_slices.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/reduce_value.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// The types that a gradient can have.
template <class T>
concept GradientValue = std::same_as<T, Tensor> || std::same_as<T, PerReplica<Tensor>> ||
    std::same_as<T, Mirrored<Tensor>> || std::same_as<T, IndexedSlices> ||
    std::same_as<T, PerReplica<IndexedSlices>> || std::same_as<T, Mirrored<IndexedSlices>>;

/// The gradient of a loss with respect to one variable, type erased: a tensor of the variable's shape and
/// dtype, sparse rows of such a tensor, either of these distributed, or nothing if the loss does not depend
/// on the variable. Converts implicitly from all of these. A cheap value, which shares the tensors.
class Gradient {
 public:
  Gradient(std::nullopt_t) {}
  template <GradientValue T>
  Gradient(const T& value) : value_(ReduceValue(value)) {}
  template <GradientValue T>
  Gradient(const std::optional<T>& value) {
    if (value) value_ = ReduceValue(*value);
  }

  [[nodiscard]] bool is_nothing() const noexcept { return !value_; }
  /// The value; empty if the gradient is nothing.
  [[nodiscard]] const std::optional<ReduceValue>& value() const& noexcept { return value_; }
  [[nodiscard]] std::optional<ReduceValue> value() const&&;

 private:
  std::optional<ReduceValue> value_;
};

/// A gradient and its variable: `{gradient, variable}`.
struct GradientAndVariable {
  Gradient gradient;
  Variable variable;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
