#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/stream.hpp>

#include "detail/expects.hpp"
#include "tensor_checks.hpp"

namespace lockstep {

namespace {

using backend::UnaryOp;

Tensor unary(UnaryOp op, const Tensor& t) {
  Tensor out = Tensor::empty(t.shape(), t.dtype(), t.device());
  if (t.size() > 0) {
    const StreamRef stream = current_stream(t.device());
    stream.device_backend().kernels().unary(op, out.view(), t.contiguous().view(), stream.handle());
  }
  return out;
}

/// Compares two tensors of one shape, dtype and device.
Tensor compare(const char* operation, backend::BinaryOp op, const Tensor& a, const Tensor& b,
               DType out_dtype) {
  detail::require_same_dtype(operation, a, b);
  detail::require_same_device(operation, a, b);
  detail::require_same_shape(operation, a, b);
  Tensor out = Tensor::empty(a.shape(), out_dtype, a.device());
  if (out.size() > 0) {
    const StreamRef stream = current_stream(a.device());
    stream.device_backend().kernels().binary(op, out.view(), a.contiguous().view(), b.contiguous().view(),
                                             stream.handle());
  }
  return out;
}

/// Checks that there is one class for each row of logits.
void require_labels_of(const char* operation, const Tensor& logits, const Tensor& labels) {
  detail::require_same_device(operation, logits, labels);
  LOCKSTEP_EXPECTS(labels.dtype() == DType::i64, InvalidArgument, operation, ": labels ", describe(labels),
                   " are not int64. Convert them with Tensor::cast first.");
  LOCKSTEP_EXPECTS(logits.rank() == 2 && labels.rank() == 1 && labels.shape()[0] == logits.shape()[0],
                   InvalidArgument, operation, ": labels ", describe(labels), " do not fit logits ",
                   describe(logits), ". Pass logits [rows, classes] and labels [rows].");
}

/// Checks labels in host memory; a device would have to be waited for.
void require_labels_in_range(const Tensor& labels, std::int64_t num_classes) {
  if (labels.device().kind() != DeviceKind::cpu) return;
  const auto* const label = static_cast<const std::int64_t*>(labels.view().data);
  for (std::int64_t row = 0; row < labels.size(); ++row) {
    LOCKSTEP_EXPECTS(0 <= label[row] && label[row] < num_classes, InvalidArgument,
                     "softmax_cross_entropy: label ", label[row], " of row ", row, " is not one of the ",
                     num_classes, " classes. Pass labels in [0, ", num_classes, ").");
  }
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  detail::require_floating("matmul", a);
  detail::require_same_dtype("matmul", a, b);
  detail::require_same_device("matmul", a, b);
  LOCKSTEP_EXPECTS(a.rank() == 2 && b.rank() == 2, InvalidArgument, "matmul: ", describe(a), " and ",
                   describe(b), " are not both matrices. Reshape them to rank 2.");
  const std::int64_t m = a.shape()[transpose_a ? 1 : 0], k = a.shape()[transpose_a ? 0 : 1];
  const std::int64_t n = b.shape()[transpose_b ? 0 : 1];
  LOCKSTEP_EXPECTS(b.shape()[transpose_b ? 1 : 0] == k, InvalidArgument, "matmul: ", describe(a),
                   transpose_a ? " (transposed)" : "", " has ", k, " columns, ", describe(b),
                   transpose_b ? " (transposed)" : "", " has ", b.shape()[transpose_b ? 1 : 0],
                   " rows. Make these numbers equal.");
  if (k == 0) return Tensor::zeros(Shape(m, n), a.dtype(), a.device());
  Tensor out = Tensor::empty(Shape(m, n), a.dtype(), a.device());
  if (out.size() > 0) {
    const StreamRef stream = current_stream(a.device());
    stream.device_backend().kernels().matmul(out.view(), a.contiguous().view(), transpose_a,
                                             b.contiguous().view(), transpose_b, stream.handle());
  }
  return out;
}

Tensor exp(const Tensor& t) {
  detail::require_floating("exp", t);
  return unary(UnaryOp::exp, t);
}

Tensor log(const Tensor& t) {
  detail::require_floating("log", t);
  return unary(UnaryOp::log, t);
}

Tensor sqrt(const Tensor& t) {
  detail::require_floating("sqrt", t);
  return unary(UnaryOp::sqrt, t);
}

Tensor relu(const Tensor& t) {
  detail::require_numeric("relu", t);
  return unary(UnaryOp::relu, t);
}

Tensor relu_gradient(const Tensor& gradient, const Tensor& t) {
  detail::require_numeric("relu_gradient", gradient);
  return compare("relu_gradient", backend::BinaryOp::relu_gradient, gradient, t, gradient.dtype());
}

Tensor cast(const Tensor& t, DType dtype) { return t.cast(dtype); }

Tensor equal(const Tensor& a, const Tensor& b) {
  return compare("equal", backend::BinaryOp::equal, a, b, DType::boolean);
}

Tensor add_row(const Tensor& matrix, const Tensor& row) {
  detail::require_numeric("add_row", matrix);
  detail::require_same_dtype("add_row", matrix, row);
  detail::require_same_device("add_row", matrix, row);
  LOCKSTEP_EXPECTS(matrix.rank() == 2 && row.rank() == 1 && matrix.shape()[1] == row.shape()[0],
                   InvalidArgument, "add_row: ", describe(row), " is not one row of ", describe(matrix),
                   ". Pass a matrix [rows, columns] and a vector [columns].");
  Tensor out = Tensor::empty(matrix.shape(), matrix.dtype(), matrix.device());
  if (out.size() > 0) {
    const StreamRef stream = current_stream(matrix.device());
    stream.device_backend().kernels().add_row(out.view(), matrix.contiguous().view(), row.contiguous().view(),
                                              stream.handle());
  }
  return out;
}

Tensor concatenate(std::span<const Tensor> parts, std::int64_t axis) {
  LOCKSTEP_EXPECTS(!parts.empty(), InvalidArgument,
                   "concatenate: there are no parts. Pass at least one tensor.");
  const Tensor& first = parts.front();
  const int joined = first.shape().normalize_axis(axis, "concatenate");
  std::int64_t extent = 0;
  for (const Tensor& part : parts) {
    detail::require_same_dtype("concatenate", first, part);
    LOCKSTEP_EXPECTS(
        part.rank() == first.rank() && part.shape().with(joined, 0) == first.shape().with(joined, 0),
        InvalidArgument, "concatenate: ", describe(first), " and ", describe(part),
        " differ in more than axis ", joined, ". Pass tensors of equal shape but for that axis.");
    extent += part.shape()[joined];
  }
  Tensor out = Tensor::empty(first.shape().with(joined, extent), first.dtype(), first.device());
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    const std::int64_t end = begin + part.shape()[joined];
    out.narrow(joined, begin, end).copy_(part);
    begin = end;
  }
  return out;
}

std::pair<Tensor, Tensor> softmax_cross_entropy(const Tensor& logits, const Tensor& labels) {
  detail::require_floating("softmax_cross_entropy", logits);
  require_labels_of("softmax_cross_entropy", logits, labels);
  LOCKSTEP_EXPECTS(logits.size() > 0 || labels.size() == 0, InvalidArgument, "softmax_cross_entropy: logits ",
                   describe(logits), " have rows but no classes. Pass at least one class.");
  const Tensor classes = labels.contiguous();
  require_labels_in_range(classes, logits.shape()[1]);
  Tensor loss = Tensor::empty(labels.shape(), logits.dtype(), logits.device());
  Tensor gradient = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  if (logits.size() > 0) {
    const StreamRef stream = current_stream(logits.device());
    stream.device_backend().kernels().softmax_cross_entropy(
        loss.view(), gradient.view(), logits.contiguous().view(), classes.view(), stream.handle());
  }
  return {loss, gradient};
}

Tensor in_top_k(const Tensor& logits, const Tensor& labels, std::int64_t k) {
  detail::require_numeric("in_top_k", logits);
  require_labels_of("in_top_k", logits, labels);
  LOCKSTEP_EXPECTS(k >= 1, InvalidArgument, "in_top_k: k is ", k, ". Pass at least 1.");
  Tensor out = Tensor::empty(labels.shape(), DType::boolean, logits.device());
  if (out.size() > 0) {
    const StreamRef stream = current_stream(logits.device());
    stream.device_backend().kernels().in_top_k(out.view(), logits.contiguous().view(),
                                               labels.contiguous().view(), k, stream.handle());
  }
  return out;
}

}  // namespace lockstep
