#include "arithmetic/dispatch_operator.hpp"
#include "arithmetic/operators.hpp"
#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/reduce/axis_reduction.hpp"

namespace lockstep::host {

void HostKernels::reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                              const backend::AxisExtents& extents, double divisor,
                              backend::StreamHandle stream) {
  if (extents.axis == 0 && !is_boolean(in.dtype))
    return fill(out, arithmetic::of_nothing(op, divisor), stream);
  const detail::FloatEnvironment environment;
  arithmetic::dispatch_operator(op, [&]<class Op>() { reduce_by<Op>(name(op), out, in, extents, divisor); });
}

}  // namespace lockstep::host
