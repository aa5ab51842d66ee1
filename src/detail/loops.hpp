#pragma once

#include <array>
#include <cstdint>

#include <lockstep/tensor_view.hpp>

namespace lockstep::detail {

/// The common extents of two views, with axes joined if both views are contiguous across them; at least one
/// axis. The innermost axis is the last.
struct Loops {
  using Strides = std::array<std::int64_t, Shape::kMaxRank>;

  int rank = 0;
  Strides extents{}, out{}, in{};  // strides in elements

  Loops(const TensorView& out_view, const TensorView& in_view) {
    for (int axis = 0; axis < out_view.shape.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      const std::int64_t extent = out_view.shape[axis];
      if (extent == 1) continue;
      const auto last = static_cast<std::size_t>(rank) - 1;
      if (rank > 0 && out[last] == out_view.strides[i] * extent && in[last] == in_view.strides[i] * extent) {
        extents[last] *= extent;
      } else {
        extents[last + 1] = extent;
        ++rank;
      }
      out[static_cast<std::size_t>(rank) - 1] = out_view.strides[i];
      in[static_cast<std::size_t>(rank) - 1] = in_view.strides[i];
    }
    if (rank == 0) {
      extents[0] = out[0] = in[0] = 1;
      rank = 1;
    }
  }

  /// Whether both views are single runs.
  bool is_contiguous() const { return rank == 1 && out[0] == 1 && in[0] == 1; }
};

}  // namespace lockstep::detail
