#pragma once

#include <concepts>
#include <limits>

/// Means of numbers whose sum overflows.
namespace lockstep::arithmetic {

/// The power of two by which each of `count` finite numbers is divided before their sum, so that this does
/// not overflow where their mean does not. Only of numbers that are subnormal then anything is lost.
template <std::floating_point A>
constexpr A sum_scale(A count) {
  A scale = 1;
  while (scale < count) scale *= 2;
  return scale;
}

template <std::floating_point A>
constexpr bool is_finite(A value) {
  return value - value == 0;
}

/// A sum of numbers that are divided by a power of two first: one that overflows as it stands is finite here.
template <std::floating_point A>
class ScaledSum {
 public:
  /// @param scale  a power of two, at least sum_scale of how many numbers are added.
  constexpr explicit ScaledSum(A scale) : factor_(1 / scale) {}

  constexpr void add(A value) {
    sum_ += value * factor_;
    lowest_ = value < lowest_ ? value : lowest_;
    highest_ = value > highest_ ? value : highest_;
    ++count_;
  }

  /// Whether every number is finite. @pre there is one.
  constexpr bool is_finite() const {
    return arithmetic::is_finite(lowest_) && arithmetic::is_finite(highest_) && sum_ == sum_;
  }

  /// The sum of the numbers over `divisor`. Where that is how many there are, it lies between them.
  constexpr A over(A divisor) const {
    const A quotient = sum_ / (divisor * factor_);
    if (!is_finite()) return quotient;
    const A share = count_ / divisor;
    const A low = lowest_ * share, high = highest_ * share;
    return quotient < low ? low : high < quotient ? high : quotient;
  }

 private:
  A factor_;
  A sum_ = 0;
  A count_ = 0;
  A lowest_ = std::numeric_limits<A>::infinity();
  A highest_ = -std::numeric_limits<A>::infinity();
};

}  // namespace lockstep::arithmetic
