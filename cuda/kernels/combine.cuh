#pragma once

#include <concepts>

#include "arithmetic/operators.hpp"
#include "arithmetic/scaled_sum.hpp"
#include "kernels/element.cuh"

namespace lockstep::cuda {

/// What kCount elements of all sources combine to, of which the first `count` are used.
/// @param combined  by Op.
/// @param element   `element(k, j)`, the j-th of source k, as compute_t<T>: means whose sum is not finite are
/// made of them again.
template <class Op, class T, int kCount, class Element>
__device__ __forceinline__ Vector<T, kCount> results_of(const compute_t<T> (&combined)[kCount],
                                                        int num_sources, bool mean, int count,
                                                        const Element& element) {
  using A = compute_t<T>;
  Vector<T, kCount> results;
  if constexpr (std::same_as<Op, arithmetic::Sum> && !std::integral<T>) {
    if (mean) {
      const A divisor = static_cast<A>(num_sources);
      unsigned large = 0;  // a bit for each
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const A quotient = combined[j] / divisor;
        large |= j < count && !arithmetic::is_finite(quotient) ? 1u << j : 0u;
        results.elements[j] = narrow<T>(quotient);
      }
      // Seldom, so in one place, which needs no registers for `combined`.
#pragma unroll 1
      for (; large != 0; large &= large - 1) {
        const int at = __ffs(static_cast<int>(large)) - 1;
        arithmetic::ScaledSum<A> scaled(arithmetic::sum_scale(divisor));
#pragma unroll 1
        for (int k = 0; k < num_sources; ++k) scaled.add(element(k, at));
        const T result = narrow<T>(scaled.over(divisor));
#pragma unroll
        for (int j = 0; j < kCount; ++j)
          if (j == at) results.elements[j] = result;
      }
      return results;
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) results.elements[j] = narrow<T>(combined[j]);
  return results;
}

}  // namespace lockstep::cuda
