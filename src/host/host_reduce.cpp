#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_reduction.hpp"

namespace lockstep::host {

void HostKernels::reduce_axis(ReduceOp op, const TensorView& out, const TensorView& in,
                              const backend::AxisExtents& extents, double divisor, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return reduce_by<Sum>(name(op), out, in, extents, divisor);
    case ReduceOp::product: return reduce_by<Product>(name(op), out, in, extents, divisor);
    case ReduceOp::min: return reduce_by<Min>(name(op), out, in, extents, divisor);
    case ReduceOp::max: return reduce_by<Max>(name(op), out, in, extents, divisor);
  }
}

}  // namespace lockstep::host
