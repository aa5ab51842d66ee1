#pragma once

#include <concepts>
#include <limits>

/// Means of numbers whose sum overflows.
namespace lockstep::arithmetic {

/// The power of two by which each of `count` finite numbers is divided before they are summed, so that their
/// sum does not overflow unless their mean does. Only numbers that become subnormal lose digits.
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

/// A sum of numbers that are first divided by a power of two, so that it stays finite when the plain sum
/// overflows. It is as precise as one that is added up in twice the precision (Knuth's TwoSum).
template <std::floating_point A>
class ScaledSum {
 public:
  /// @param scale  a power of two, at least sum_scale of the number of summands.
  constexpr explicit ScaledSum(A scale) : factor_(1 / scale) {}

  constexpr void add(A value) {
    const A scaled = value * factor_;
    const A sum = sum_ + scaled;
    const A added = sum - sum_;
    lost_ += (sum_ - (sum - added)) + (scaled - added);
    sum_ = sum;
    lowest_ = value < lowest_ ? value : lowest_;
    highest_ = value > highest_ ? value : highest_;
    ++count_;
  }

  /// Whether every number is finite. @pre at least one was added.
  constexpr bool is_finite() const {
    return arithmetic::is_finite(lowest_) && arithmetic::is_finite(highest_) && sum_ == sum_;
  }

  /// The sum of the numbers divided by `divisor`. If that is their count, the result lies between the lowest
  /// and the highest.
  constexpr A over(A divisor) const {
    if (!is_finite()) return sum_ / divisor;
    const A quotient = (sum_ + lost_) / (divisor * factor_);
    const A share = count_ / divisor;
    const A low = lowest_ * share, high = highest_ * share;
    return quotient < low ? low : high < quotient ? high : quotient;
  }

 private:
  A factor_;
  A sum_ = 0;
  A lost_ = 0;  // the rounding errors of sum_
  A count_ = 0;
  A lowest_ = std::numeric_limits<A>::infinity();
  A highest_ = -std::numeric_limits<A>::infinity();
};

}  // namespace lockstep::arithmetic
