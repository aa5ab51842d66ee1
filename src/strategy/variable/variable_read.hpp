#pragma once

#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// The value of the variable in the current context.
Tensor read_variable(const Variable& variable);

}  // namespace lockstep::detail
