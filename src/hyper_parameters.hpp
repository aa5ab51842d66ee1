#pragma once

#include <string_view>

/// Checks of hyper-parameters by optimizers and their kernels. Each throws InvalidArgument that names `who`,
/// the number and its range.
namespace lockstep::detail {

/// Checks that the value is finite and at least 0.
void require_at_least_0(std::string_view who, std::string_view what, double value);
/// Checks that the value is finite and above 0.
void require_above_0(std::string_view who, std::string_view what, double value);
/// Checks that the value is in [0, 1).
void require_fraction(std::string_view who, std::string_view what, double value);

}  // namespace lockstep::detail
