#include "wide_sum.hpp"

namespace lockstep::detail {

Tensor WideSum::value() const {
  constexpr double kModulus = 0x1p64;
  constexpr double kWhole = 0x1.8p52;  // added and taken away again it leaves a whole number
  const Tensor low = wrapped.cast(DType::f64);
  const Tensor multiple = (rough - low) / kModulus + kWhole - kWhole;
  return multiple * kModulus + low;
}

WideSum wide_sum(const Tensor& t, const Axes& axes) {
  return {reduce_axes(ReduceOp::sum, t, axes, t.dtype()),
          reduce_axes(ReduceOp::sum, t.cast(DType::f64), axes, DType::f64)};
}

}  // namespace lockstep::detail
