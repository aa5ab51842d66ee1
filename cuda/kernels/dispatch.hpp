#pragma once

#include <concepts>
#include <string_view>

#include <lockstep/error.hpp>
#include <lockstep/tensor_view.hpp>

#include "detail/expects.hpp"

namespace lockstep::cuda {

/// Calls `f.template operator()<T>()` with the element type of a number.
/// @throws Unsupported  booleans.
template <class F>
void dispatch_arithmetic(std::string_view operation, const TensorView& operand, F&& f) {
  dispatch(operand.dtype, [&]<class T>() {
    if constexpr (std::same_as<T, bool>) {
      LOCKSTEP_EXPECTS(false, Unsupported, operation, " on ", operand.device, ": ", operand.shape, " ",
                       operand.dtype, " is not a number. Cast it to a number first.");
    } else {
      f.template operator()<T>();
    }
  });
}

/// The same for floating dtypes only.
/// @throws Unsupported  the others.
template <class F>
void dispatch_floating(std::string_view operation, const TensorView& operand, F&& f) {
  LOCKSTEP_EXPECTS(is_floating(operand.dtype), Unsupported, operation, " on ", operand.device, ": ",
                   operand.shape, " ", operand.dtype, " is not a floating dtype. Cast it to one first.");
  dispatch(operand.dtype, [&]<class T>() {
    if constexpr (!std::integral<T>) f.template operator()<T>();
  });
}

}  // namespace lockstep::cuda
