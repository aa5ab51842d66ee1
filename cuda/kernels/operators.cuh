#pragma once

#include <concepts>

#include "kernels/element.cuh"

/// Arithmetic beyond the reductions'; integers wrap, and division by zero gives 0.
namespace lockstep::cuda {

template <class C>
__device__ C subtract(C a, C b) {
  return static_cast<C>(static_cast<wrapping_t<C>>(a) - static_cast<wrapping_t<C>>(b));
}

template <class C>
__device__ C quotient(C a, C b) {
  if constexpr (std::integral<C>) {
    if (b == 0) return 0;
    if constexpr (std::signed_integral<C>) {
      if (b == -1) return subtract(C(0), a);  // the lowest number has no opposite
    }
    return static_cast<C>(a / b);
  } else {
    return a / b;
  }
}

}  // namespace lockstep::cuda
