#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <lockstep/input/padded_batch_options.hpp>

#include "input/rows/batch.hpp"

namespace lockstep::detail {

/// The extents that a leaf's rows are padded to; nothing: to the longest row of the batch.
using PaddedExtents = std::vector<std::optional<std::int64_t>>;

/// Elements of different lengths that are to be stacked along a new first axis, padded at the end of each
/// axis.
class PaddedBatch final : public Batch {
 public:
  /// @param columns  for each leaf the elements' rows. @pre no column is empty. @param extents  for each
  /// leaf; empty: all of the longest row. @param values  for each leaf; empty: 0, or false.
  /// @throws InvalidArgument  the dtypes or ranks of a column differ; a row is longer than the extents; there
  /// are other numbers of leaves than of extents or values; a value is not exact in the leaf's dtype.
  PaddedBatch(std::vector<std::vector<RowRun>> columns, const std::vector<PaddedExtents>& extents,
              const std::vector<Scalar>& values, std::string_view what);

  std::size_t num_leaves() const noexcept override { return columns_.size(); }
  LeafType leaf(std::size_t index) const override { return leaves_[index]; }
  void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const override;

 private:
  std::vector<std::vector<RowRun>> columns_;
  std::vector<LeafType> leaves_;
  std::vector<Shape> shapes_;    // of a padded row of each leaf
  std::vector<Tensor> padding_;  // of each leaf, a scalar
};

}  // namespace lockstep::detail
