#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include <lockstep/buffer.hpp>
#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// Memory for one result of a graph, call after call. What the caller has dropped serves again, without a
/// call of the driver, so that a caller who keeps a few results takes memory in the first calls alone.
class ResultMemory {
 public:
  ResultMemory(const Shape& shape, DType dtype, const Device& device)
      : view_(static_cast<void*>(nullptr), shape, dtype, device) {}

  const TensorView& view() const noexcept { return view_; }
  /// A tensor that nobody else holds, for work on `stream`. @throws OutOfMemory
  Tensor take(const StreamRef& stream);

 private:
  TensorView view_;
  std::array<std::shared_ptr<Buffer>, 4> buffers_;  // owners: this, and the results
  std::size_t oldest_ = 0;
};

}  // namespace lockstep::detail
