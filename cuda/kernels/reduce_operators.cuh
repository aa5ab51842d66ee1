#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <lockstep/dtype.hpp>

#include "kernels/element.cuh"

namespace lockstep::cuda {

// Each operator: the type in which a reduction of Ts is accumulated, the one in which a few Ts are combined
// exactly, the T that changes nothing, and the combination.

template <class T>
inline constexpr bool kIsNarrowInteger = std::integral<T> && sizeof(T) <= 2;

struct Sum {
  template <class T>
  using accumulator = accumulator_t<T>;
  template <class T>
  using block = std::conditional_t<kIsNarrowInteger<T>, std::int32_t, accumulator_t<T>>;
  template <class T>
  static constexpr T identity() {
    return std::integral<T> ? T(0) : T(-0.0f);
  }
  template <class A>
  static __device__ __forceinline__ A combine(A a, A b) {
    return static_cast<A>(static_cast<wrapping_t<A>>(a) + static_cast<wrapping_t<A>>(b));
  }
};

struct Product {
  template <class T>
  using accumulator = accumulator_t<T>;
  template <class T>
  using block = accumulator_t<T>;
  template <class T>
  static constexpr T identity() {
    return T(1);
  }
  template <class A>
  static __device__ __forceinline__ A combine(A a, A b) {
    return static_cast<A>(static_cast<wrapping_t<A>>(a) * static_cast<wrapping_t<A>>(b));
  }
};

struct Selection {
  template <class T>
  using accumulator =
      std::conditional_t<kIsNarrowInteger<T>,
                         std::conditional_t<std::signed_integral<T>, std::int32_t, std::uint32_t>,
                         compute_t<T>>;
  template <class T>
  using block = accumulator<T>;
};

// a, or b where it is better or NaN; a NaN in a stays, as no comparison with it holds.
struct Min : Selection {
  template <class T>
  static constexpr T identity() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class A>
  static __device__ __forceinline__ A combine(A a, A b) {
    return b < a || b != b ? b : a;
  }
};

struct Max : Selection {
  template <class T>
  static constexpr T identity() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? T(-Limits::infinity()) : Limits::lowest();
  }
  template <class A>
  static __device__ __forceinline__ A combine(A a, A b) {
    return b > a || b != b ? b : a;
  }
};

}  // namespace lockstep::cuda
