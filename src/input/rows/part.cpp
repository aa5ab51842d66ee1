#include "input/rows/part.hpp"

#include <utility>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

LeafType leaf_of(const Slice& slice, std::size_t index) {
  LeafType type = slice.batch->leaf(index);
  const RowRange rows = slice.rows[index];
  if (type.shape.rank() > 0) type.shape = type.shape.with(0, rows.end - rows.begin);
  return type;
}

}  // namespace

Part whole(const BatchHandle& batch) {
  Slice slice{batch, {}};
  for (std::size_t leaf = 0; leaf < batch->num_leaves(); ++leaf) {
    const Shape shape = batch->leaf(leaf).shape;
    slice.rows.push_back({0, shape.rank() > 0 ? shape[0] : 1});
  }
  return {std::move(slice)};
}

Part empty_part(std::vector<LeafType> leaves) {
  check_has_rows(leaves);
  std::vector<RowRange> rows(leaves.size());
  return {{std::make_shared<const EmptyBatch>(std::move(leaves)), std::move(rows)}};
}

std::vector<LeafType> leaves_of(const Batch& batch) {
  std::vector<LeafType> leaves;
  for (std::size_t leaf = 0; leaf < batch.num_leaves(); ++leaf) leaves.push_back(batch.leaf(leaf));
  return leaves;
}

void check_has_rows(const std::vector<LeafType>& leaves) {
  for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
    LOCKSTEP_EXPECTS(leaves[leaf].shape.rank() > 0, InvalidArgument,
                     "DistributedIterator::next: the dataset ends within a step, and the replicas without an "
                     "element cannot get one without rows, as component ",
                     leaf, " is a scalar, ", describe(leaves[leaf]), ". Batch the dataset first.");
}

std::size_t num_leaves(const Part& part) { return part[0].batch->num_leaves(); }

LeafType leaf_of(const Part& part, std::size_t index) {
  LeafType whole = leaf_of(part[0], index);
  for (std::size_t i = 1; i < part.size(); ++i) {
    const LeafType next = leaf_of(part[i], index);
    LOCKSTEP_EXPECTS(next.dtype == whole.dtype && next.shape.with(0, 0) == whole.shape.with(0, 0),
                     InvalidArgument, "distribute_dataset: rows of ", describe(next),
                     " do not continue those of ", describe(whole),
                     ". Make batches whose other extents and dtype are the same.");
    whole.shape = whole.shape.with(0, whole.shape[0] + next.shape[0]);
  }
  return whole;
}

void copy_rows(const Part& part, std::size_t leaf, std::byte* destination) {
  for (const Slice& slice : part) {
    slice.batch->copy_rows(leaf, slice.rows[leaf], destination);
    const LeafType type = leaf_of(slice, leaf);
    destination += static_cast<std::size_t>(type.shape.size()) * size_of(type.dtype);
  }
}

FlatElement gather(const Part& part, const Device& device) {
  FlatElement element;
  element.reserve(num_leaves(part));
  for (std::size_t leaf = 0; leaf < num_leaves(part); ++leaf) {
    std::optional<Tensor> tensor;
    if (part.size() == 1) tensor = part[0].batch->view(leaf, part[0].rows[leaf], device);
    if (!tensor) {
      const LeafType type = leaf_of(part, leaf);
      tensor = Tensor::empty(type.shape, type.dtype, device);
      copy_rows(part, leaf, static_cast<std::byte*>(tensor->data()));
    }
    element.push_back(std::move(*tensor));
  }
  return element;
}

}  // namespace lockstep::detail
