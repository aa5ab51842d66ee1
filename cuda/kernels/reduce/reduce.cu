#include "arithmetic/dispatch_operator.hpp"
#include "arithmetic/operators.hpp"
#include "cuda_kernels.hpp"
#include "detail/float_environment.hpp"
#include "kernels/reduce/reduce.hpp"

namespace lockstep::cuda {

void CudaKernels::reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                              const backend::AxisExtents& extents, double divisor,
                              backend::StreamHandle stream) {
  const lockstep::detail::FloatEnvironment floats;
  if (extents.axis == 0 && !is_boolean(in.dtype))
    return fill(out, arithmetic::of_nothing(op, divisor), stream);
  const Place place = place_on(stream);
  const char* const operation = name(op).data();
  arithmetic::dispatch_operator(
      op, [&]<class Op>() { reduce_by<Op>(place, operation, out, in, extents, divisor); });
}

}  // namespace lockstep::cuda
