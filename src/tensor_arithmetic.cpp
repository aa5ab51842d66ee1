#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/tensor.hpp>

#include "tensor_checks.hpp"

namespace lockstep {

namespace {

using backend::BinaryOp;

void launch(BinaryOp op, const TensorView& out, const Tensor& a, const Tensor& b) {
  const StreamRef stream = current_stream(out.device);
  stream.device_backend().kernels().binary(op, out, a.contiguous().view(), b.contiguous().view(),
                                           stream.handle());
}

Tensor scalar_like(std::string_view operation, const Scalar& value, const Tensor& t) {
  detail::require_numeric(operation, t);
  detail::require_holds(operation, t, value);
  Tensor result = Tensor::empty(Shape(), t.dtype(), t.device());
  result.fill_(value);
  return result;
}

Tensor combine(std::string_view operation, BinaryOp op, const Tensor& a, const Tensor& b) {
  detail::require_numeric(operation, a);
  detail::require_same_dtype(operation, a, b);
  detail::require_same_device(operation, a, b);
  if (a.rank() > 0 && b.rank() > 0) detail::require_same_shape(operation, a, b);
  Tensor out = Tensor::empty(a.rank() > 0 ? a.shape() : b.shape(), a.dtype(), a.device());
  if (out.size() > 0) launch(op, out.view(), a, b);
  return out;
}

void combine_in_place(std::string_view operation, BinaryOp op, Tensor& a, const Tensor& b) {
  detail::require_writable(operation, a);
  detail::require_numeric(operation, a);
  detail::require_same_dtype(operation, a, b);
  detail::require_same_device(operation, a, b);
  if (b.rank() > 0) detail::require_same_shape(operation, a, b);
  if (a.size() == 0) return;
  if (!a.is_contiguous()) {
    a.copy_(combine(operation, op, a, b));
  } else if (detail::may_overlap(a.view(), b.view()) && !detail::same_elements(a.view(), b.view())) {
    launch(op, a.view(), a, b.clone());
  } else {
    launch(op, a.view(), a, b);
  }
}

void combine_in_place(std::string_view operation, BinaryOp op, Tensor& a, const Scalar& b) {
  detail::require_writable(operation, a);
  combine_in_place(operation, op, a, scalar_like(operation, b, a));
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) { return combine("operator+", BinaryOp::add, a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return combine("operator-", BinaryOp::subtract, a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return combine("operator*", BinaryOp::multiply, a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return combine("operator/", BinaryOp::divide, a, b); }

Tensor operator+(const Tensor& a, const Scalar& b) { return a + scalar_like("operator+", b, a); }
Tensor operator-(const Tensor& a, const Scalar& b) { return a - scalar_like("operator-", b, a); }
Tensor operator*(const Tensor& a, const Scalar& b) { return a * scalar_like("operator*", b, a); }
Tensor operator/(const Tensor& a, const Scalar& b) { return a / scalar_like("operator/", b, a); }
Tensor operator+(const Scalar& a, const Tensor& b) { return scalar_like("operator+", a, b) + b; }
Tensor operator-(const Scalar& a, const Tensor& b) { return scalar_like("operator-", a, b) - b; }
Tensor operator*(const Scalar& a, const Tensor& b) { return scalar_like("operator*", a, b) * b; }
Tensor operator/(const Scalar& a, const Tensor& b) { return scalar_like("operator/", a, b) / b; }

Tensor operator-(const Tensor& a) {
  detail::require_numeric("operator-", a);
  Tensor out = Tensor::empty(a.shape(), a.dtype(), a.device());
  if (a.size() > 0) {
    const StreamRef stream = current_stream(a.device());
    stream.device_backend().kernels().unary(backend::UnaryOp::negate, out.view(), a.contiguous().view(),
                                            stream.handle());
  }
  return out;
}

Tensor& Tensor::add_(const Tensor& other) & {
  return combine_in_place("add_", BinaryOp::add, *this, other), *this;
}
Tensor& Tensor::sub_(const Tensor& other) & {
  return combine_in_place("sub_", BinaryOp::subtract, *this, other), *this;
}
Tensor& Tensor::mul_(const Tensor& other) & {
  return combine_in_place("mul_", BinaryOp::multiply, *this, other), *this;
}
Tensor& Tensor::div_(const Tensor& other) & {
  return combine_in_place("div_", BinaryOp::divide, *this, other), *this;
}
Tensor& Tensor::add_(const Scalar& value) & {
  return combine_in_place("add_", BinaryOp::add, *this, value), *this;
}
Tensor& Tensor::sub_(const Scalar& value) & {
  return combine_in_place("sub_", BinaryOp::subtract, *this, value), *this;
}
Tensor& Tensor::mul_(const Scalar& value) & {
  return combine_in_place("mul_", BinaryOp::multiply, *this, value), *this;
}
Tensor& Tensor::div_(const Scalar& value) & {
  return combine_in_place("div_", BinaryOp::divide, *this, value), *this;
}

}  // namespace lockstep
