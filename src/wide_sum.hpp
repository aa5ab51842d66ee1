#pragma once

#include <lockstep/ops.hpp>

namespace lockstep::detail {

/// Sums of 64-bit integers that do not fit 64 bits: exact modulo 2^64, and about right. Of two such sums the
/// parts may be added up each for itself.
struct WideSum {
  Tensor wrapped;  ///< i64 or u64.
  Tensor rough;    ///< f64, off by less than 2^63.

  /// The sums over `divisor` as f64, rounded once.
  Tensor over(double divisor) const;
};

/// Along axes of an i64 or u64 tensor.
WideSum wide_sum(const Tensor& t, const Axes& axes);

}  // namespace lockstep::detail
