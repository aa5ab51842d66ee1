#pragma once

#include <cstddef>
#include <memory>

#include <lockstep/tensor.hpp>

namespace lockstep::detail {

/// Makes small tensors on the host one after the other, many in each allocation: the last of them that is
/// dropped frees it. A tensor thus keeps at most kBytes alive. Used by one thread at a time; the tensors by
/// any.
class TensorSlab {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 13;

  /// As Tensor::empty on input_device(). Aligned to 16 bytes; a large tensor has memory of its own.
  Tensor take(const Shape& shape, DType dtype);

 private:
  std::shared_ptr<Buffer> memory_;  // owners: this and the tensors
  std::size_t used_ = 0;
};

}  // namespace lockstep::detail
