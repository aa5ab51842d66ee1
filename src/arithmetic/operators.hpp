#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/dtype.hpp>
#include <lockstep/reduce_op.hpp>

/// The arithmetic of elements: the rules of all kernels, on the host and on GPUs. Kernels that combine whole
/// vectors repeat them for lanes (src/host/collectives/float_lanes-inl.hpp, cuda/kernels/combine.cu); tests
/// hold them to these. The functions are constexpr, so that device code can call them.
///
/// lockstep/backend/communicator_backend.hpp states the contract that these rules fulfil.
namespace lockstep::arithmetic {

/// The type in which arithmetic on T is done: float for the small floats, else T itself.
template <class T>
using compute_t = std::conditional_t<std::integral<T>, T, accumulator_t<T>>;

/// The type in which a sum of type A is divided.
template <class A>
using quotient_t = std::conditional_t<std::integral<A>, double, A>;

/// The type in which A wraps instead of overflowing: for an integer, an unsigned type that is not promoted to
/// int.
template <class A>
using wrapping_t =
    typename std::conditional_t<!std::integral<A>, std::type_identity<A>,
                                std::conditional_t<sizeof(A) < sizeof(unsigned), std::type_identity<unsigned>,
                                                   std::make_unsigned<A>>>::type;

// Each operator has `apply`, which combines two numbers. Operators of reductions also have `identity`, which
// changes no number.

struct Sum {
  static constexpr bool kSelects = false;
  template <class T>
  static constexpr T identity() {
    return std::integral<T> ? T(0) : T(-0.0f);  // 0 would turn -0 into 0
  }
  template <class A>
  static constexpr A apply(A a, A b) {
    return static_cast<A>(static_cast<wrapping_t<A>>(a) + static_cast<wrapping_t<A>>(b));
  }
};

struct Difference {
  template <class A>
  static constexpr A apply(A a, A b) {
    return static_cast<A>(static_cast<wrapping_t<A>>(a) - static_cast<wrapping_t<A>>(b));
  }
};

struct Product {
  static constexpr bool kSelects = false;
  template <class T>
  static constexpr T identity() {
    return T(1);
  }
  template <class A>
  static constexpr A apply(A a, A b) {
    return static_cast<A>(static_cast<wrapping_t<A>>(a) * static_cast<wrapping_t<A>>(b));
  }
};

/// An integer divided by 0 gives 0.
struct Quotient {
  template <class A>
  static constexpr A apply(A a, A b) {
    if constexpr (std::integral<A>) {
      if (b == 0) return 0;
      if constexpr (std::signed_integral<A>) {
        if (b == -1) return Difference::apply(A(0), a);  // the negation of the lowest number wraps
      }
      return static_cast<A>(a / b);
    } else {
      return a / b;
    }
  }
};

/// NaN wins in either operand: every comparison with it is false, so that a NaN in `a` stays.
struct Min {
  static constexpr bool kSelects = true;
  template <class T>
  static constexpr T identity() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  /// The minimum in one instruction. @pre neither operand is NaN.
  template <class A>
  static constexpr A select(A a, A b) {
    return b < a ? b : a;
  }
  template <class A>
  static constexpr A apply(A a, A b) {
    const A selected = select(a, b);  // unconditional, so that loops vectorise
    return b != b ? b : selected;
  }
};

/// The rules of Min apply.
struct Max {
  static constexpr bool kSelects = true;
  template <class T>
  static constexpr T identity() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? T(-Limits::infinity()) : Limits::lowest();
  }
  template <class A>
  static constexpr A select(A a, A b) {
    return b > a ? b : a;
  }
  template <class A>
  static constexpr A apply(A a, A b) {
    const A selected = select(a, b);  // unconditional, so that loops vectorise
    return b != b ? b : selected;
  }
};

/// The gradient of relu at x, given the gradient of its result.
struct ReluGradient {
  template <class A>
  static constexpr A apply(A gradient, A x) {
    return x > A(0) ? gradient : A(0);
  }
};

template <class A>
constexpr A negated(A x) {
  if constexpr (std::integral<A>)
    return Difference::apply(A(0), x);
  else
    return -x;
}

/// NaN stays NaN.
template <class A>
constexpr A relu(A x) {
  if constexpr (std::unsigned_integral<A>)
    return x;
  else
    return x < A(0) ? A(0) : x;
}

/// Whether argmax prefers x to y: NaN is the largest.
template <class A>
constexpr bool is_larger(A x, A y) {
  return x > y || (x != x && y == y);
}

/// x divided by a number of the host; an integer is divided in double, and the quotient truncated.
template <class A>
constexpr A over(A x, double divisor) {
  if constexpr (std::integral<A>)
    return detail::saturate_cast<A>(static_cast<double>(x) / divisor);
  else
    return x / static_cast<A>(divisor);
}

/// The result of a reduction of no elements, divided by `divisor`. Only sums divide; min and max have no
/// value.
constexpr double of_nothing(ReduceOp op, double divisor) {
  if (op == ReduceOp::product) return 1;
  return divisor == 0 ? std::numeric_limits<double>::quiet_NaN() : 0;
}

}  // namespace lockstep::arithmetic
