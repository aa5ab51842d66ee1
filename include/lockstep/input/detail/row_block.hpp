#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// Consecutive rows of one leaf, contiguous and on the host. Without `ends`, and unless it is a row itself,
/// `values` has them along its first axis.
struct RowRun {
  Tensor values;
  /// Of rows of rank 1 that differ in length: where each ends in `values`, which has one after the other.
  std::vector<std::int64_t> ends{};
  /// Whether `values` is one row: the leaf of an element that came alone.
  bool is_row = false;
};

/// Consecutive elements of a pass at once, in memory that nothing else uses: many share each allocation.
struct RowBlock {
  std::vector<RowRun> leaves{};
  std::int64_t num_rows = 0;  ///< 0: the pass has ended.
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
