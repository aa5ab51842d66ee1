#pragma once

#include <string_view>

#include <lockstep/tensor.hpp>

/// What tensor operations check before they enqueue anything. Each throws InvalidArgument naming the
/// operation and the tensors.
namespace lockstep::detail {

void require_same_device(std::string_view operation, const Tensor& a, const Tensor& b);
void require_same_dtype(std::string_view operation, const Tensor& a, const Tensor& b);
void require_same_shape(std::string_view operation, const Tensor& a, const Tensor& b);
/// Not booleans.
void require_numeric(std::string_view operation, const Tensor& t);
void require_floating(std::string_view operation, const Tensor& t);
/// The tensor's dtype can hold the number.
void require_holds(std::string_view operation, const Tensor& t, const Scalar& value);
/// Not read-only, and no two elements at one address.
void require_writable(std::string_view operation, const Tensor& t);

/// Whether the views may have bytes in common: whether the ranges from their first to their last byte do.
/// Devices are not compared, since all CPU:k share one memory.
bool may_overlap(const TensorView& a, const TensorView& b) noexcept;

/// Whether the views are the same elements in the same order.
bool same_elements(const TensorView& a, const TensorView& b) noexcept;

}  // namespace lockstep::detail
