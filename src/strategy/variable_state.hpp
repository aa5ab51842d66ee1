#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// @throws InvalidArgument  `value` cannot be a component of the variable: names it, both shapes and both
/// dtypes.
void check_fits(const VariableState& state, const Tensor& value, std::string_view what);

/// What a function given to `update` has in its hands: copies of the components, which replace them together.
/// Only its thread sees them, in the context of that update.
struct VariableUpdate {
  const VariableState& state;
  std::vector<Tensor> values;

  /// The innermost one of the variable that this thread is in; null: none.
  static VariableUpdate* of(const VariableState& state) noexcept;
};

/// Components that are this thread's alone while it lives: one of them, or all. In an update of the variable
/// they are what that has in its hands.
///
/// No function of the caller's runs meanwhile. Components of one variable are locked in their order; whoever
/// locks those of several variables at once does so in an order that all who lock these keep.
class LockedComponents {
 public:
  explicit LockedComponents(VariableState& state) : LockedComponents(state, 0, state.components.size()) {}
  LockedComponents(VariableState& state, std::size_t i) : LockedComponents(state, i, i + 1) {}
  ~LockedComponents();
  LockedComponents(const LockedComponents&) = delete;
  LockedComponents& operator=(const LockedComponents&) = delete;

  /// Component i's handle, to look at it or to put another in its place.
  Tensor& operator[](std::size_t i) noexcept;
  /// Whether somebody holds a snapshot of component i, so that it must not be written in place.
  bool is_held(std::size_t i) noexcept { return update_ == nullptr && (*this)[i].is_shared(); }
  /// Component i to write in place, after storage of its own was made for it if somebody holds a snapshot.
  Tensor& writable(std::size_t i);
  /// Makes `values`, which nobody else holds, the components.
  void replace(std::vector<Tensor>& values);

 private:
  LockedComponents(VariableState& state, std::size_t begin, std::size_t end);

  VariableState& state_;
  VariableUpdate* const update_;
  const std::size_t begin_, end_;
};

/// Which component of the variable a function given to `update` or `update_non_slot` concerns; none: outside
/// these, and for a variable of several components in the update of one that has only one.
std::optional<std::size_t> updated_component(const VariableState& state) noexcept;

/// Makes the state of a variable in the context at hand; in a replica function together with the other
/// replicas, which get the same one.
/// @param initial  called once. @param given  what it returns, if known before.
std::shared_ptr<VariableState> create_variable(const std::function<Tensor()>& initial,
                                               VariableOptions options, const Tensor* given);

/// What a read of the variable gives in the context at hand.
Tensor read_variable(const Variable& variable);

}  // namespace lockstep::detail
