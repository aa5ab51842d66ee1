#pragma once

#include <string_view>
#include <vector>

#include <lockstep/tensor.hpp>

/// Rows in host memory. The host's streams have finished their work when a call returns, so the bytes may be
/// read and written at once.
namespace lockstep::detail {

/// Where datasets live, CPU:0, whichever device is current.
const Device& input_device();

/// The tensor, contiguous, on input_device(): itself where it is that already.
Tensor on_host(const Tensor& tensor);

/// @throws InvalidArgument  no tensors, or different shapes or dtypes; names `what`.
void check_stackable(const std::vector<Tensor>& tensors, std::string_view what);
/// Of tensors stacked along a new first axis. @pre check_stackable. @throws InvalidArgument  the rank is the
/// largest.
Shape stacked_shape(const std::vector<Tensor>& tensors);

}  // namespace lockstep::detail
