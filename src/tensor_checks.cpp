#include "tensor_checks.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

namespace {

/// A sufficient condition: in the order of strides, each axis steps over everything that the previous axes
/// reach.
bool elements_are_apart(const TensorView& view) {
  if (view.is_contiguous()) return true;
  RecycledVector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    if (view.shape[axis] > 1)
      axes.emplace_back(view.strides[static_cast<std::size_t>(axis)], view.shape[axis]);
  }
  std::sort(axes.begin(), axes.end());
  std::int64_t reach = 0;
  for (const auto& [stride, extent] : axes) {
    if (stride <= reach) return false;
    reach += (extent - 1) * stride;
  }
  return true;
}

/// The first byte and the byte after the last.
std::pair<std::uintptr_t, std::uintptr_t> byte_range(const TensorView& view) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(view.data);
  if (view.size() == 0) return {begin, begin};
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape.rank(); ++axis) {
    last += (view.shape[axis] - 1) * view.strides[static_cast<std::size_t>(axis)];
  }
  return {begin, begin + static_cast<std::uintptr_t>(last + 1) * size_of(view.dtype)};
}

}  // namespace

void require_same_device(std::string_view operation, const Tensor& a, const Tensor& b) {
  LOCKSTEP_EXPECTS(a.device() == b.device(), InvalidArgument, operation, ": ", describe(a), " and ",
                   describe(b), " are on different devices. Move one with Tensor::to first.");
}

void require_same_dtype(std::string_view operation, const Tensor& a, const Tensor& b) {
  LOCKSTEP_EXPECTS(a.dtype() == b.dtype(), InvalidArgument, operation, ": ", describe(a), " and ",
                   describe(b), " have different dtypes. Convert one with Tensor::cast first.");
}

void require_same_shape(std::string_view operation, const Tensor& a, const Tensor& b) {
  LOCKSTEP_EXPECTS(a.shape() == b.shape(), InvalidArgument, operation, ": ", describe(a), " and ",
                   describe(b),
                   " have different shapes. Reshape one; only tensors of rank 0 are broadcast, where the "
                   "operation allows it.");
}

void require_numeric(std::string_view operation, const Tensor& t) {
  LOCKSTEP_EXPECTS(!is_boolean(t.dtype()), InvalidArgument, operation, ": not defined on booleans, and ",
                   describe(t), " holds them. Convert it with Tensor::cast first.");
}

void require_floating(std::string_view operation, const Tensor& t) {
  LOCKSTEP_EXPECTS(is_floating(t.dtype()), InvalidArgument, operation, ": needs a floating-point dtype, and ",
                   describe(t), " has none. Convert it with Tensor::cast first.");
}

void require_holds(std::string_view operation, const Tensor& t, const Scalar& value) {
  LOCKSTEP_EXPECTS(value.fits(t.dtype()), InvalidArgument, operation, ": the number ", value,
                   " does not fit ", describe(t), ". Pass one that ", t.dtype(),
                   " can hold, or convert the tensor with Tensor::cast first.");
}

void require_writable(std::string_view operation, const Tensor& t) {
  LOCKSTEP_EXPECTS(!t.is_read_only(), InvalidArgument, operation, ": ", describe(t),
                   " is read-only: a view of constant memory, or a variable's value. Write to its clone().");
  LOCKSTEP_EXPECTS(elements_are_apart(t.view()), InvalidArgument, operation, ": elements of ", describe(t),
                   " may share addresses, by its strides, and cannot be written. Write to its clone().");
}

bool is_writable(const Tensor& t) { return !t.is_read_only() && elements_are_apart(t.view()); }

bool may_overlap(const TensorView& a, const TensorView& b) noexcept {
  const auto [a_begin, a_end] = byte_range(a);
  const auto [b_begin, b_end] = byte_range(b);
  return a_begin < b_end && b_begin < a_end;
}

bool same_elements(const TensorView& a, const TensorView& b) noexcept {
  if (a.data != b.data || a.dtype != b.dtype || !(a.device == b.device) || !(a.shape == b.shape))
    return false;
  return std::equal(a.strides.begin(), a.strides.begin() + a.shape.rank(), b.strides.begin());
}

}  // namespace lockstep::detail
