#pragma once

#include <string_view>

#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// @throws InvalidArgument  `value` cannot be a component of the variable: names it, both shapes and both
/// dtypes.
void check_fits(const VariableState& state, const Tensor& value, std::string_view what);

}  // namespace lockstep::detail
