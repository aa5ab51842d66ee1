#pragma once

#include <cstddef>
#include <vector>

#include "input/rows/batch.hpp"

/// A replica's part of one or more batches, before its rows are copied.
namespace lockstep::detail {

/// A range of rows of each leaf of a batch.
struct Slice {
  BatchHandle batch;
  std::vector<RowRange> rows;
};

/// An element to be made of the rows of its slices, one after the other. It has at least one slice.
using Part = std::vector<Slice>;

/// A part of all rows.
Part whole(const BatchHandle& batch);
/// A part without rows, with the other extents of the leaves. @throws InvalidArgument  as check_has_rows.
Part empty_part(std::vector<LeafType> leaves);

std::vector<LeafType> leaves_of(const Batch& batch);
/// @throws InvalidArgument  a leaf is a scalar, which cannot lack rows.
void check_has_rows(const std::vector<LeafType>& leaves);

std::size_t num_leaves(const Part& part);
/// @throws InvalidArgument  the slices differ in dtype or in extents other than the rows.
LeafType leaf_of(const Part& part, std::size_t index);
/// Copies the rows of a leaf.
void copy_rows(const Part& part, std::size_t leaf, std::byte* destination);
/// The part as tensors on a CPU: views of its rows if possible, else copies.
/// @throws InvalidArgument  as leaf_of.
FlatElement gather(const Part& part, const Device& device);

}  // namespace lockstep::detail
