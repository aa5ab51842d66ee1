// How two elements or vectors are combined, for each instruction set: included once for each, as Highway's
// own "-inl.h" are.
#if defined(LOCKSTEP_RANGE_OPERATORS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_RANGE_OPERATORS_INL
#undef LOCKSTEP_RANGE_OPERATORS_INL
#else
#define LOCKSTEP_RANGE_OPERATORS_INL
#endif

#include <concepts>
#include <type_traits>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::host::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// What T is combined in.
template <class T>
using Wide = std::conditional_t<std::integral<T> || std::same_as<T, double>, T, float>;

// Integers wrap: computed in an unsigned type that is not promoted to int.
template <class A>
using Wrapping = std::conditional_t<sizeof(A) < sizeof(unsigned), unsigned, std::make_unsigned_t<A>>;

struct Sum {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::Add(a, b);
  }
  template <class A>
  static A apply(A a, A b) {
    if constexpr (std::integral<A>)
      return static_cast<A>(static_cast<Wrapping<A>>(a) + static_cast<Wrapping<A>>(b));
    else
      return a + b;
  }
};
struct Product {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::Mul(a, b);
  }
  template <class A>
  static A apply(A a, A b) {
    if constexpr (std::integral<A>)
      return static_cast<A>(static_cast<Wrapping<A>>(a) * static_cast<Wrapping<A>>(b));
    else
      return a * b;
  }
};
// a, or b where it is smaller or NaN; a NaN in a stays, as no comparison with it holds.
struct Min {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
  template <class A>
  static A apply(A a, A b) {
    const A smaller = b < a ? b : a;  // one instruction
    return b != b ? b : smaller;
  }
};
struct Max {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
  template <class A>
  static A apply(A a, A b) {
    const A larger = b > a ? b : a;
    return b != b ? b : larger;
  }
};

}  // namespace
}  // namespace lockstep::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
