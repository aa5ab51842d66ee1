#include <lockstep/tensor_view.hpp>

namespace lockstep {

bool TensorView::is_contiguous() const noexcept {
  if (size() < 2) return true;
  const auto expected = shape.contiguous_strides();
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(shape.rank()); ++axis) {
    // Along an axis of extent 1 no step is ever taken.
    if (strides[axis] != expected[axis] && shape.extents()[axis] != 1) return false;
  }
  return true;
}

}  // namespace lockstep
