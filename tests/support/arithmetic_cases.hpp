#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <vector>

#include <lockstep/dtype.hpp>

/// The results of arithmetic that C++ alone does not define, for every dtype. The functions themselves and
/// each backend's kernels are tested with this table.
namespace lockstep::test {

enum class Rule : std::uint8_t {
  sum,
  difference,
  product,
  quotient,
  min,
  max,
  relu_gradient,
  negated,  ///< of a
  relu      ///< of a
};

template <class T>
struct ArithmeticCase {
  Rule rule;
  T a, b, expected;
};

/// Integers wrap, and dividing by zero gives 0.
template <std::integral T>
std::vector<ArithmeticCase<T>> arithmetic_cases() {
  constexpr T kMin = std::numeric_limits<T>::min(), kMax = std::numeric_limits<T>::max();
  constexpr T kMinusOne = static_cast<T>(-1), kMinusSeven = static_cast<T>(-7);
  constexpr bool kSigned = std::signed_integral<T>;
  return {
      {Rule::sum, kMax, T(1), kMin},
      {Rule::sum, kMin, kMinusOne, kMax},
      {Rule::sum, kMax, kMax, static_cast<T>(-2)},
      {Rule::difference, kMin, T(1), kMax},
      {Rule::difference, T(0), kMin, kMin},
      {Rule::product, kMax, kMax, T(1)},
      {Rule::product, kMin, kMinusOne, kMin},
      {Rule::quotient, T(7), T(0), T(0)},
      {Rule::quotient, T(0), T(0), T(0)},
      {Rule::quotient, kMin, kMinusOne, kSigned ? kMin : T(0)},
      {Rule::quotient, kMinusSeven, T(2), kSigned ? static_cast<T>(-3) : static_cast<T>(kMax / 2 - 3)},
      {Rule::min, kMax, kMin, kMin},
      {Rule::min, kMin, kMax, kMin},
      {Rule::max, kMax, kMin, kMax},
      {Rule::max, kMin, kMax, kMax},
      {Rule::relu_gradient, T(3), T(0), T(0)},
      {Rule::relu_gradient, T(3), kMinusOne, kSigned ? T(0) : T(3)},
      {Rule::relu_gradient, T(3), kMax, T(3)},
      {Rule::negated, kMin, T(0), kMin},
      {Rule::negated, kMax, T(0), static_cast<T>(kMin + 1)},
      {Rule::relu, kMin, T(0), T(0)},
      {Rule::relu, kMax, T(0), kMax},
  };
}

/// NaN wins min and max wherever it stands, and an operation without a value gives NaN.
template <class T>
requires(!std::integral<T>) std::vector<ArithmeticCase<T>> arithmetic_cases() {
  using Limits = std::numeric_limits<T>;
  const T nan = Limits::quiet_NaN();
  const T infinity = static_cast<T>(std::numeric_limits<float>::infinity());  // NaN where there is none
  const T most = Limits::max();
  const auto number = [](float value) { return static_cast<T>(value); };
  return {
      {Rule::sum, number(2), number(5), number(7)},
      {Rule::sum, nan, number(1), nan},
      {Rule::sum, most, most, infinity},
      {Rule::difference, number(2), number(5), number(-3)},
      {Rule::product, number(-2), number(5), number(-10)},
      {Rule::product, number(0), nan, nan},
      {Rule::quotient, number(-3), number(2), number(-1.5f)},
      {Rule::quotient, number(1), number(0), infinity},
      {Rule::quotient, number(0), number(0), nan},
      {Rule::min, number(2), number(-5), number(-5)},
      {Rule::min, number(-5), number(2), number(-5)},
      {Rule::min, nan, number(1), nan},
      {Rule::min, number(1), nan, nan},
      {Rule::min, nan, nan, nan},
      {Rule::min, infinity, most, Limits::has_infinity ? most : nan},
      {Rule::max, number(2), number(-5), number(2)},
      {Rule::max, number(-5), number(2), number(2)},
      {Rule::max, nan, number(1), nan},
      {Rule::max, number(1), nan, nan},
      {Rule::max, Limits::lowest(), most, most},
      {Rule::relu_gradient, number(3), number(2), number(3)},
      {Rule::relu_gradient, number(3), number(-2), number(0)},
      {Rule::relu_gradient, number(3), nan, number(0)},
      {Rule::negated, most, number(0), Limits::lowest()},
      {Rule::negated, nan, number(0), nan},
      {Rule::relu, number(-2), number(0), number(0)},
      {Rule::relu, nan, number(0), nan},
  };
}

}  // namespace lockstep::test
