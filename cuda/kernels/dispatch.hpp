#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <vector_types.h>

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

/// Moving elements needs only their size: calls `f.template operator()<Bits>()` with a type of that size, 1
/// to 16 bytes.
template <class F>
void dispatch_size(std::size_t size, F&& f) {
  switch (size) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    case 8: return f.template operator()<std::uint64_t>();
    default: return f.template operator()<uint4>();
  }
}

}  // namespace lockstep::cuda
