#include "divided.hpp"

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/reduce_op.hpp>
#include <lockstep/stream.hpp>

namespace lockstep::detail {

Tensor divided(const Tensor& t, double divisor) {
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
