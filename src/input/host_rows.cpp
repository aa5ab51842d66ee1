#include "input/host_rows.hpp"

#include <cstddef>
#include <cstring>

#include <lockstep/error.hpp>
#include <lockstep/input/numpy.hpp>

namespace lockstep::detail {
namespace {

/// The tensors' elements one after the other, as `shape`.
Tensor join(const std::vector<Tensor>& tensors, const Shape& shape) {
  Tensor result = Tensor::empty(shape, tensors[0].dtype(), input_device());
  auto* next = static_cast<std::byte*>(result.data());
  for (const Tensor& tensor : tensors) {
    const Tensor source = on_host(tensor);
    if (source.nbytes() > 0) std::memcpy(next, source.view().data, static_cast<std::size_t>(source.nbytes()));
    next += source.nbytes();
  }
  return result;
}

}  // namespace

const Device& input_device() {
  static const Device device(DeviceKind::cpu, 0);
  return device;
}

Tensor on_host(const Tensor& tensor) { return tensor.to(input_device()).contiguous(); }

Tensor copy_to_host(const Tensor& tensor) {
  return tensor.device() == input_device() ? tensor.clone() : on_host(tensor);
}

Tensor concatenate_rows(const std::vector<Tensor>& tensors, std::string_view what) {
  const Tensor& first = tensors[0];
  std::int64_t num_rows = 0;
  for (const Tensor& tensor : tensors) {
    LOCKSTEP_EXPECTS(tensor.rank() > 0 && tensor.dtype() == first.dtype() &&
                         tensor.shape().with(0, 0) == first.shape().with(0, 0),
                     InvalidArgument, what, ": rows of ", describe(tensor), " do not continue those of ",
                     describe(first), ". Make batches whose other extents and dtype are the same.");
    num_rows += tensor.shape()[0];
  }
  return join(tensors, first.shape().with(0, num_rows));
}

Tensor stack(const std::vector<Tensor>& tensors, std::string_view what) {
  LOCKSTEP_EXPECTS(!tensors.empty(), InvalidArgument, what,
                   ": there are no tensors to stack. Pass at least one.");
  const Tensor& first = tensors[0];
  std::vector<std::int64_t> extents{static_cast<std::int64_t>(tensors.size())};
  extents.insert(extents.end(), first.shape().begin(), first.shape().end());
  for (const Tensor& tensor : tensors)
    LOCKSTEP_EXPECTS(tensor.shape() == first.shape() && tensor.dtype() == first.dtype(), InvalidArgument,
                     what, ": cannot stack ", describe(tensor), " on ", describe(first),
                     ". Make all shapes and dtypes the same.");
  return join(tensors, Shape(extents));
}

}  // namespace lockstep::detail
