#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

/// Arithmetic on two numbers; integers wrap, and division by zero gives 0.
namespace lockstep::host {

/// An unsigned type that holds C and is not promoted to int, in which integers wrap without undefined
/// behaviour.
template <class C>
using wrapping_t = std::conditional_t<sizeof(C) < 4, std::uint32_t, std::make_unsigned_t<C>>;

/// f(a, b), wrapping.
template <class C, class F>
C wrapping(C a, C b, F f) {
  if constexpr (std::integral<C>) {
    using W = wrapping_t<C>;
    return static_cast<C>(f(static_cast<W>(a), static_cast<W>(b)));
  } else {
    return f(a, b);
  }
}

struct Add {
  template <class C>
  static C apply(C a, C b) {
    return wrapping(a, b, [](auto x, auto y) { return x + y; });
  }
};

struct Subtract {
  template <class C>
  static C apply(C a, C b) {
    return wrapping(a, b, [](auto x, auto y) { return x - y; });
  }
};

struct Multiply {
  template <class C>
  static C apply(C a, C b) {
    return wrapping(a, b, [](auto x, auto y) { return x * y; });
  }
};

struct Divide {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (std::integral<C>) {
      if (b == 0) return 0;
      if constexpr (std::signed_integral<C>) {
        if (b == -1) return Subtract::apply(C(0), a);  // the lowest number has no opposite
      }
      return static_cast<C>(a / b);
    } else {
      return a / b;
    }
  }
};

}  // namespace lockstep::host
