#include <lockstep/tensor_view.hpp>

namespace lockstep {

bool TensorView::is_contiguous() const noexcept {
  if (size() < 2) return true;
  const auto expected = shape.contiguous_strides();
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(shape.rank()); ++axis) {
    // An axis of extent 1 is never stepped along.
    if (strides[axis] != expected[axis] && shape.extents()[axis] != 1) return false;
  }
  return true;
}

}  // namespace lockstep
