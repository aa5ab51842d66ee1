#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "arithmetic/operators.hpp"

namespace lockstep::host {

/// Combines a block of numbers with `apply`.
template <class Op>
struct PlainCombiner {
  template <class B>
  void see(B, B) {}
  bool seen() const { return false; }
  template <class B>
  static B apply(B a, B b) {
    if constexpr (std::same_as<Op, arithmetic::Sum> && std::same_as<B, std::int32_t>)
      return a + b;  // does not overflow: loops add only narrower integers in this type
    else
      return Op::apply(a, b);
  }
};

/// Combines a block of numbers with `select`, and records whether there was a NaN; if so, the block must be
/// combined again with PlainCombiner.
template <class Op, class C>
class NanWatch {
  using Mask = std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>;

 public:
  void see(C a, C b) { mask_ |= __builtin_isunordered(a, b) ? Mask(-1) : Mask(0); }
  bool seen() const { return mask_ != 0; }
  static C apply(C a, C b) { return Op::select(a, b); }

 private:
  Mask mask_ = 0;
};

}  // namespace lockstep::host
