#pragma once

#include <string_view>

#include <lockstep/tensor.hpp>

/// Checks that tensor operations make before they enqueue anything. Each throws InvalidArgument that names
/// the operation and the tensors.
namespace lockstep::detail {

void require_same_device(std::string_view operation, const Tensor& a, const Tensor& b);
void require_same_dtype(std::string_view operation, const Tensor& a, const Tensor& b);
void require_same_shape(std::string_view operation, const Tensor& a, const Tensor& b);
/// Refuses booleans.
void require_numeric(std::string_view operation, const Tensor& t);
void require_floating(std::string_view operation, const Tensor& t);
/// Checks that the tensor's dtype can hold the number.
void require_holds(std::string_view operation, const Tensor& t, const Scalar& value);
/// Checks that the tensor is not read-only, and that no two elements share an address.
void require_writable(std::string_view operation, const Tensor& t);
bool is_writable(const Tensor& t);

/// Whether the views may have bytes in common, that is, whether the ranges from their first to their last
/// byte overlap. Devices are not compared, because all CPU:k share one memory.
bool may_overlap(const TensorView& a, const TensorView& b) noexcept;

/// Whether the views refer to the same elements in the same order.
bool same_elements(const TensorView& a, const TensorView& b) noexcept;

}  // namespace lockstep::detail
