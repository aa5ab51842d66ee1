#include <cstdint>
#include <span>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/stream.hpp>

#include "arithmetic/operators.hpp"
#include "arithmetic/scaled_sum.hpp"
#include "detail/expects.hpp"
#include "tensor_checks.hpp"
#include "wide_sum.hpp"

/// Reductions along axes.
namespace lockstep {

namespace {

/// Axes [first, last] of a tensor.
struct AxisGroup {
  int first;
  int last;
};

/// Joins neighbouring axes to groups; without reduced axes (those of a scalar) there is no group.
detail::RecycledVector<AxisGroup> group_neighbours(std::span<const int> sorted_axes) {
  detail::RecycledVector<AxisGroup> groups;
  for (const int axis : sorted_axes) {
    if (!groups.empty() && groups.back().last + 1 == axis) {
      groups.back().last = axis;
    } else {
      groups.push_back({axis, axis});
    }
  }
  return groups;
}

backend::AxisExtents extents_around(const Shape& shape, const AxisGroup& group) {
  backend::AxisExtents extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    (axis < group.first ? extents.outer : axis <= group.last ? extents.axis : extents.inner) *= shape[axis];
  }
  return extents;
}

Shape without(Shape shape, const AxisGroup& group) {
  for (int axis = group.last; axis >= group.first; --axis) shape = shape.without(axis);
  return shape;
}

Tensor reduce_group(ReduceOp op, const Tensor& t, const AxisGroup& group, DType out_dtype, double divisor) {
  const Tensor in = t.contiguous();
  Tensor out = Tensor::empty(without(t.shape(), group), out_dtype, t.device());
  const StreamRef stream = current_stream(t.device());
  stream.device_backend().kernels().reduce_axis(op, out.view(), in.view(), extents_around(t.shape(), group),
                                                divisor, stream.handle());
  return out;
}

/// All axes if none is named.
detail::RecycledVector<int> axes_of(const Tensor& t, const Axes& axes, const char* operation) {
  detail::RecycledVector<int> result = axes.normalized(t.shape(), operation);
  if (axes.empty()) {
    result.clear();
    for (int axis = 0; axis < t.rank(); ++axis) result.push_back(axis);
  }
  return result;
}

/// @param operation  the function that the user called, for messages.
Tensor reduce_for(const char* operation, ReduceOp op, const Tensor& t, const Axes& axes, DType out_dtype,
                  double divisor = 1) {
  const DType dtype = t.dtype();
  const DType sum_dtype = accumulator_dtype(dtype);
  const DType mean_dtype = reduced_dtype(ReduceOp::mean, dtype);  // refuses booleans
  const bool is_sum = op == ReduceOp::sum || op == ReduceOp::mean;
  const bool is_wide_sum = is_sum && is_floating(dtype) && out_dtype == DType::f64;
  LOCKSTEP_EXPECTS(out_dtype == dtype || out_dtype == sum_dtype || out_dtype == mean_dtype || is_wide_sum,
                   InvalidArgument, operation, "(", op, "): ", describe(t), " cannot be reduced to ",
                   out_dtype, ". Ask for ", dtype, ", ", sum_dtype, " or ", mean_dtype,
                   ", or cast the tensor first.");
  LOCKSTEP_EXPECTS(divisor == 1 || is_sum, InvalidArgument, "reduce_axes(", op, "): the divisor ", divisor,
                   " has no meaning for ", op, ". Only sum and mean divide.");
  const detail::RecycledVector<int> reduced = axes_of(t, axes, operation);
  std::int64_t count = 1;
  for (const int axis : reduced) count *= t.shape()[axis];
  if (op == ReduceOp::mean) {
    divisor *= static_cast<double>(count);
    op = ReduceOp::sum;
  }
  LOCKSTEP_EXPECTS(divisor != 0 || is_floating(out_dtype), InvalidArgument, operation, ": a sum over ",
                   describe(t), " divided by 0 has no value in ", out_dtype,
                   ". Ask for a floating-point dtype, which gives NaN.");

  // The sum of 64-bit integers may wrap even if the quotient fits.
  if (divisor != 1 && (dtype == DType::i64 || dtype == DType::u64))
    return detail::wide_sum(t, axes).over(divisor).cast(out_dtype);

  detail::RecycledVector<AxisGroup> groups = group_neighbours(reduced);
  Shape out_shape = t.shape();
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) out_shape = without(out_shape, *group);
  if (out_shape.empty() || count == 0) {
    LOCKSTEP_EXPECTS(out_shape.empty() || (op != ReduceOp::min && op != ReduceOp::max), InvalidArgument, op,
                     ": ", describe(t),
                     " has no elements along the reduced axes. Reduce at least one element.");
    Tensor out = Tensor::empty(out_shape, out_dtype, t.device());
    out.fill_(arithmetic::of_nothing(op, divisor));
    return out;
  }

  if (groups.empty()) groups.push_back({0, -1});  // a scalar: one element along an axis that does not exist
  if (groups.size() == 1) return reduce_group(op, t, groups.front(), out_dtype, divisor);
  // Reduce the innermost group first, so that the other groups' indices stay valid. Partial results keep the
  // accumulator's dtype, except that quotients of floats are kept in double, which holds sums of any size.
  const bool is_quotient = divisor != 1 && is_floating(dtype);
  const DType partial_dtype = is_quotient || is_wide_sum ? DType::f64 : sum_dtype;
  Tensor partial = t;
  while (groups.size() > 1) {
    double scale = 1;
    if (is_quotient && dtype == DType::f64) {
      const std::int64_t length = extents_around(partial.shape(), groups.back()).axis;
      scale = arithmetic::sum_scale(static_cast<double>(length));
    }
    partial = reduce_group(op, partial, groups.back(), partial_dtype, scale);
    divisor /= scale;
    groups.pop_back();
  }
  const DType last_dtype = divisor == 1 ? partial_dtype : reduced_dtype(ReduceOp::mean, partial_dtype);
  return reduce_group(op, partial, groups.front(), last_dtype, divisor).cast(out_dtype);
}

}  // namespace

Tensor reduce_axes(ReduceOp op, const Tensor& t, const Axes& axes, DType out_dtype, double divisor) {
  return reduce_for("reduce_axes", op, t, axes, out_dtype, divisor);
}
Tensor sum(const Tensor& t, const Axes& axes) { return reduce_for("sum", ReduceOp::sum, t, axes, t.dtype()); }
Tensor max(const Tensor& t, const Axes& axes) { return reduce_for("max", ReduceOp::max, t, axes, t.dtype()); }
Tensor min(const Tensor& t, const Axes& axes) { return reduce_for("min", ReduceOp::min, t, axes, t.dtype()); }
Tensor product(const Tensor& t, const Axes& axes) {
  return reduce_for("product", ReduceOp::product, t, axes, t.dtype());
}
Tensor mean(const Tensor& t, const Axes& axes) {
  return reduce_for("mean", ReduceOp::mean, t, axes, reduced_dtype(ReduceOp::mean, t.dtype()));
}

Tensor argmax(const Tensor& t, std::int64_t axis) {
  detail::require_numeric("argmax", t);
  const int reduced = t.shape().normalize_axis(axis, "argmax");
  Tensor out = Tensor::empty(t.shape().without(reduced), DType::i64, t.device());
  if (out.size() == 0) return out;
  LOCKSTEP_EXPECTS(t.size() > 0, InvalidArgument, "argmax: ", describe(t), " has no elements along axis ",
                   reduced, ". Reduce at least one element.");
  const Tensor in = t.contiguous();
  const StreamRef stream = current_stream(t.device());
  stream.device_backend().kernels().argmax(out.view(), in.view(),
                                           extents_around(t.shape(), {reduced, reduced}), stream.handle());
  return out;
}

}  // namespace lockstep
