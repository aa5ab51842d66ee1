#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// @throws InvalidArgument  `value` cannot be a component of the variable: names it, both shapes and both
/// dtypes.
void check_fits(const VariableState& state, const Tensor& value, std::string_view what);

/// Whether somebody holds a snapshot of component i.
bool is_held(const VariableState& state, std::size_t i);

/// Component i, after storage of its own was made for it if somebody holds a snapshot.
Tensor& writable_component(VariableState& state, std::size_t i);

/// Makes the state of a variable in the context at hand; in a replica function together with the other
/// replicas, which get the same one.
/// @param initial  called once. @param given  what it returns, if known before.
std::shared_ptr<VariableState> create_variable(const std::function<Tensor()>& initial,
                                               VariableOptions options, const Tensor* given);

/// What a read of the variable gives in the context at hand.
Tensor read_variable(const Variable& variable);

}  // namespace lockstep::detail
