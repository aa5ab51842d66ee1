#include "input/rows/tensor_slab.hpp"

#include <utility>

#include "input/rows/host_rows.hpp"

namespace lockstep::detail {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::size_t kMostBytes = TensorSlab::kBytes / 4;  // of a tensor

}  // namespace

Tensor TensorSlab::take(const Shape& shape, DType dtype) {
  const std::size_t size_bytes = static_cast<std::size_t>(shape.size()) * size_of(dtype);
  if (size_bytes > kMostBytes) return Tensor::empty(shape, dtype, input_device());
  const std::size_t taken = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (!memory_ || taken > kBytes - used_) {
    memory_ = std::make_shared<Buffer>(kBytes, current_stream(input_device()));
    used_ = 0;
  }
  TensorView view(static_cast<std::byte*>(memory_->data()) + used_, shape, dtype, input_device());
  used_ += taken;
  return Tensor::adopt(memory_, std::move(view));
}

}  // namespace lockstep::detail
