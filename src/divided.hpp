#pragma once

#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// t / divisor with the arithmetic of a mean: in float or double, rounded once to reduced_dtype(mean).
Tensor divided(const Tensor& t, double divisor);

}  // namespace lockstep::detail
