#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/reduce_op.hpp>
#include <lockstep/shape.hpp>
#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// The operations that examples, metrics and optimizers need; this is not an array library. Every call makes
/// a new tensor on its operands' device, enqueued on that device's current stream. @throws InvalidArgument
/// shapes, dtypes or devices do not fit: names both.
namespace lockstep {

/// [m, k] x [k, n] -> [m, n], either operand optionally transposed first. f32 or f64.
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a = false,
                            bool transpose_b = false);

/// Reductions along axes (an empty list: all axes). Sums are accumulated in accumulator_dtype and rounded
/// once; results repeat bit for bit. sum, product, min and max keep the dtype; mean gives
/// reduced_dtype(mean). NaN propagates through min and max.
/// @throws InvalidArgument  an axis is out of range; min or max of no elements; booleans.
[[nodiscard]] Tensor sum(const Tensor& t, const Axes& axes = {});
[[nodiscard]] Tensor mean(const Tensor& t, const Axes& axes = {});
[[nodiscard]] Tensor max(const Tensor& t, const Axes& axes = {});
[[nodiscard]] Tensor min(const Tensor& t, const Axes& axes = {});
[[nodiscard]] Tensor product(const Tensor& t, const Axes& axes = {});
/// The general form: any op, with the sum divided by `divisor` before the one rounding to `out_dtype`.
/// `out_dtype` is the dtype, its accumulator_dtype, or its reduced_dtype(mean); for sums of floats it may
/// also be f64, which holds all such sums. Quotients of 64-bit integers are computed from their true sums,
/// even if these do not fit 64 bits. A quotient of f64 below 2^-1022 times the number of elements may be
/// inexact in its last places.
[[nodiscard]] Tensor reduce_axes(ReduceOp op, const Tensor& t, const Axes& axes, DType out_dtype,
                                 double divisor = 1);

/// Index (i64) of the largest element along an axis; the first of several equal ones.
[[nodiscard]] Tensor argmax(const Tensor& t, std::int64_t axis = -1);

[[nodiscard]] Tensor exp(const Tensor& t);
[[nodiscard]] Tensor log(const Tensor& t);
[[nodiscard]] Tensor sqrt(const Tensor& t);
[[nodiscard]] Tensor relu(const Tensor& t);
/// `gradient` where t > 0, else 0.
[[nodiscard]] Tensor relu_gradient(const Tensor& gradient, const Tensor& t);
[[nodiscard]] Tensor cast(const Tensor& t, DType dtype);
/// Booleans: whether two tensors of one shape and dtype agree in each element.
[[nodiscard]] Tensor equal(const Tensor& a, const Tensor& b);
/// [rows, columns] + [columns].
[[nodiscard]] Tensor add_row(const Tensor& matrix, const Tensor& row);
/// Joins tensors along `axis`, on the first one's device; their dtypes are equal, and so are their shapes
/// except along `axis`.
[[nodiscard]] Tensor concatenate(std::span<const Tensor> parts, std::int64_t axis);

/// logits [rows, classes], labels i64 [rows] -> loss [rows] and its gradient by the logits [rows, classes].
/// Labels lie in [0, classes). On the host any other label throws InvalidArgument; on a GPU, where labels are
/// not known when the call returns, the row's loss and gradient are NaN.
[[nodiscard]] std::pair<Tensor, Tensor> softmax_cross_entropy(const Tensor& logits, const Tensor& labels);

/// logits [rows, classes], labels i64 [rows] -> booleans [rows]: whether fewer than k classes have a greater
/// logit than the label's class, so that classes with equal logits share the better rank. NaN is greater than
/// any number. Labels out of range and labels whose logit is NaN count as misses.
/// @throws InvalidArgument  k is below 1; shapes, dtypes or devices do not fit.
[[nodiscard]] Tensor in_top_k(const Tensor& logits, const Tensor& labels, std::int64_t k);

}  // namespace lockstep

#pragma GCC visibility pop
