#pragma once

#include <string_view>

/// What optimizers and their kernels check of their numbers. Each throws InvalidArgument naming `who`, the
/// number and its range.
namespace lockstep::detail {

/// Finite, and at least 0.
void require_at_least_0(std::string_view who, std::string_view what, double value);
/// Finite, and above 0.
void require_above_0(std::string_view who, std::string_view what, double value);
/// In [0, 1).
void require_fraction(std::string_view who, std::string_view what, double value);

}  // namespace lockstep::detail
