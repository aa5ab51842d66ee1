#include "divided.hpp"

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/stream.hpp>

#include "wide_sum.hpp"

namespace lockstep::detail {

Tensor divided(const Tensor& t, double divisor) {
  if (t.dtype() == DType::i64 || t.dtype() == DType::u64) {
    const Tensor sums = t.contiguous();
    return WideSum{sums, sums.cast(DType::f64)}.over(divisor);
  }
  Tensor floating = t.cast(reduced_dtype(ReduceOp::mean, t.dtype()));
  Tensor result = Tensor::empty(floating.shape(), floating.dtype(), floating.device());
  if (result.size() > 0) {
    const StreamRef stream = current_stream(result.device());
    floating = floating.contiguous();
    stream.device_backend().kernels().divide(result.view(), floating.view(), divisor, stream.handle());
  }
  return result;
}

}  // namespace lockstep::detail
