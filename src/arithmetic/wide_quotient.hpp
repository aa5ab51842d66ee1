#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "arithmetic/scaled_sum.hpp"

/// Quotients of sums of integers that a double does not hold.
namespace lockstep::arithmetic {

/// A sum of integers over `divisor`, rounded once.
/// @param wrapped  the sum modulo 2^64.
/// @param rough    the sum, off by less than 2^63: it says which multiple of 2^64 `wrapped` lacks.
template <std::integral T>
requires(sizeof(T) == 8) constexpr double wide_quotient(T wrapped, double rough, double divisor) {
  constexpr double kModulus = 0x1p64;
  constexpr double kWhole = 0x1.8p52;  // added and taken away again it leaves a whole number
  const double upper = static_cast<double>(wrapped >> 32) * 0x1p32;
  const double lower = static_cast<double>(static_cast<std::uint32_t>(wrapped));
  const double multiple = ((rough - (upper + lower)) / kModulus + kWhole) - kWhole;
  // high + low is the sum exactly: low holds the rounding errors of high's two additions (Dekker 1971).
  const double most = multiple * kModulus + upper;
  const double high = most + lower;
  const double low = (upper - (most - multiple * kModulus)) + (lower - (high - most));
  const double quotient = high / divisor;
  if (low == 0 || quotient == 0 || !is_finite(quotient)) return quotient;
  const double remainder = std::fma(-quotient, divisor, high);
  return quotient + (remainder + low) / divisor;
}

/// The same of a sum that fits its type.
template <std::integral T>
constexpr double wide_quotient(T sum, double divisor) {
  if constexpr (sizeof(T) < 8)
    return static_cast<double>(sum) / divisor;
  else
    return wide_quotient(sum, static_cast<double>(sum), divisor);
}

}  // namespace lockstep::arithmetic
