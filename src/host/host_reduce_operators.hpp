#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

namespace lockstep::host {

// Each operator: the type in which a block is accumulated, the identity, and the combination. Sums and
// products of integers wrap: they are accumulated unsigned, but for sums that cannot overflow.

template <class C>
using wide_t = std::conditional_t<std::integral<C>, std::uint64_t, C>;

struct Sum {
  static constexpr bool kSelects = false;
  // A block's sum of 8- or 16-bit integers fits 32 bits.
  template <class C>
  using block_t = std::conditional_t<(std::integral<C> && sizeof(C) <= 2), std::int32_t, wide_t<C>>;
  template <class A>
  static constexpr A identity() {
    return A(0);
  }
  template <class A>
  static A combine(A a, A b) {
    return a + b;
  }
};

struct Product {
  static constexpr bool kSelects = false;
  template <class C>
  using block_t = wide_t<C>;
  template <class A>
  static constexpr A identity() {
    return A(1);
  }
  template <class A>
  static A combine(A a, A b) {
    return a * b;
  }
};

/// Min and Max: NaN wins wherever it stands, and stays. `select` is one instruction, right where there is no
/// NaN.
template <class Better>
struct Selection {
  static constexpr bool kSelects = true;
  template <class C>
  using block_t = C;
  template <class A>
  static A select(A a, A b) {
    return Better()(b, a) ? b : a;
  }
  template <class A>
  static A combine(A a, A b) {
    return Better()(b, a) || b != b ? b : a;
  }
};

struct Min : Selection<std::less<>> {
  template <class A>
  static constexpr A identity() {
    return std::numeric_limits<A>::max();
  }
};

struct Max : Selection<std::greater<>> {
  template <class A>
  static constexpr A identity() {
    return std::numeric_limits<A>::lowest();
  }
};

/// How a block is combined: as it is, or, for numbers that may be NaN, by `select` while looking out for one.
template <class Op>
struct Plain {
  template <class B>
  void see(B, B) {}
  bool seen() const { return false; }
  template <class B>
  static B combine(B a, B b) {
    return Op::combine(a, b);
  }
};

template <class Op, class C>
class Watching {
  using Mask = std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>;

 public:
  void see(C a, C b) { mask_ |= __builtin_isunordered(a, b) ? Mask(-1) : Mask(0); }
  bool seen() const { return mask_ != 0; }
  static C combine(C a, C b) { return Op::select(a, b); }

 private:
  Mask mask_ = 0;
};

}  // namespace lockstep::host
