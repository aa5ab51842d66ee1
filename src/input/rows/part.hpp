#pragma once

#include <cstddef>
#include <vector>

#include "input/rows/batch.hpp"

/// What a replica gets of batches, before it is anywhere.
namespace lockstep::detail {

/// Rows of each leaf of a batch.
struct Slice {
  BatchHandle batch;
  std::vector<RowRange> rows;
};

/// An element to be: the slices' rows one after the other. At least one slice.
using Part = std::vector<Slice>;

/// All rows.
Part whole(const BatchHandle& batch);
/// An element without rows; other extents are the leaves'. @throws InvalidArgument  as check_has_rows.
Part empty_part(std::vector<LeafType> leaves);

std::vector<LeafType> leaves_of(const Batch& batch);
/// @throws InvalidArgument  a scalar, which cannot be left without rows.
void check_has_rows(const std::vector<LeafType>& leaves);

std::size_t num_leaves(const Part& part);
/// @throws InvalidArgument  the slices differ in other extents or dtype.
LeafType leaf_of(const Part& part, std::size_t index);
/// Copies the rows of a leaf.
void copy_rows(const Part& part, std::size_t leaf, std::byte* destination);
/// The part as tensors on a CPU: views of its rows where that is possible, else copies.
/// @throws InvalidArgument  as leaf_of.
FlatElement gather(const Part& part, const Device& device);

}  // namespace lockstep::detail
