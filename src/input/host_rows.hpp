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

/// The tensors' rows one after the other. @pre not empty. @throws InvalidArgument  scalars; other extents or
/// dtypes differ; names `what`.
Tensor concatenate_rows(const std::vector<Tensor>& tensors, std::string_view what);

}  // namespace lockstep::detail
