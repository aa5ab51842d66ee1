#pragma once

#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Sparse rows of a dense tensor: row indices[i] is values[i, ...]; an index may occur several times, and its
/// rows then add up. Reductions concatenate indices and values over replicas, without merging duplicates;
/// mean divides the values by N.
struct IndexedSlices {
  Tensor values;      ///< [n, ...]
  Tensor indices;     ///< i64 [n], each in [0, dense_shape[0]).
  Shape dense_shape;  ///< [rows, ...]; its other extents are those of `values`.

  /// The dense tensor, on the values' device; rows not named are 0. Waits for the device to read the indices.
  /// @throws InvalidArgument  shapes, dtypes or devices do not fit, or an index is out of range; names them.
  [[nodiscard]] Tensor to_dense() const;
};

/// @throws InvalidArgument  as to_dense, but for the indices' values.
void check(const IndexedSlices& slices);

}  // namespace lockstep

#pragma GCC visibility pop
