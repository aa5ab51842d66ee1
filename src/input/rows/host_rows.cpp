#include "input/rows/host_rows.hpp"

#include <cstddef>
#include <cstring>

#include <lockstep/error.hpp>
#include <lockstep/input/numpy.hpp>

#include "detail/cpu_0.hpp"
#include "detail/expects.hpp"

namespace lockstep::detail {

const Device& input_device() { return cpu_0(); }

Tensor on_host(const Tensor& tensor) { return tensor.to(input_device()).contiguous(); }

Tensor copy_to_host(const Tensor& tensor) {
  return tensor.device() == input_device() ? tensor.clone() : on_host(tensor);
}

void check_stackable(const std::vector<Tensor>& tensors, std::string_view what) {
  LOCKSTEP_EXPECTS(!tensors.empty(), InvalidArgument, what,
                   ": there are no tensors to stack. Pass at least one.");
  const Tensor& first = tensors[0];
  for (const Tensor& tensor : tensors)
    LOCKSTEP_EXPECTS(tensor.shape() == first.shape() && tensor.dtype() == first.dtype(), InvalidArgument,
                     what, ": cannot stack ", describe(tensor), " on ", describe(first),
                     ". Make all shapes and dtypes the same, or use padded_batch.");
}

Shape stacked_shape(const Shape& row, std::int64_t num_rows) {
  std::vector<std::int64_t> extents{num_rows};
  extents.insert(extents.end(), row.begin(), row.end());
  return Shape(extents);
}

Tensor stack(const std::vector<Tensor>& tensors, std::string_view what) {
  check_stackable(tensors, what);
  Tensor result = Tensor::empty(stacked_shape(tensors[0].shape(), static_cast<std::int64_t>(tensors.size())),
                                tensors[0].dtype(), input_device());
  auto* next = static_cast<std::byte*>(result.data());
  for (const Tensor& tensor : tensors) {
    const Tensor source = on_host(tensor);
    if (source.nbytes() > 0) std::memcpy(next, source.view().data, static_cast<std::size_t>(source.nbytes()));
    next += source.nbytes();
  }
  return result;
}

}  // namespace lockstep::detail
