#include "wide_sum.hpp"

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/stream.hpp>

namespace lockstep::detail {

Tensor WideSum::over(double divisor) const {
  Tensor result = Tensor::empty(wrapped.shape(), DType::f64, wrapped.device());
  if (result.size() > 0) {
    const StreamRef stream = current_stream(result.device());
    stream.device_backend().kernels().divide_wide_sum(result.view(), wrapped.view(), rough.view(), divisor,
                                                      stream.handle());
  }
  return result;
}

WideSum wide_sum(const Tensor& t, const Axes& axes) {
  return {reduce_axes(ReduceOp::sum, t, axes, t.dtype()),
          reduce_axes(ReduceOp::sum, t.cast(DType::f64), axes, DType::f64)};
}

}  // namespace lockstep::detail
