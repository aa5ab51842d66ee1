#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/tensor.hpp>

/// Rows in host memory. The host's streams have finished their work when a call returns, so the bytes may be
/// read and written at once.
namespace lockstep::detail {

/// The device of datasets, CPU:0, whichever device is current.
const Device& input_device();

/// The tensor, contiguous, on input_device(); the same tensor if it is that already.
Tensor on_host(const Tensor& tensor);

/// @throws InvalidArgument  there are no tensors, or shapes or dtypes differ; names `what`.
void check_stackable(const std::vector<Tensor>& tensors, std::string_view what);
/// The shape of rows stacked along a new first axis. @throws InvalidArgument  they have the largest rank.
Shape stacked_shape(const Shape& row, std::int64_t num_rows);

}  // namespace lockstep::detail
