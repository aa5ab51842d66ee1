#include "input/splitting.hpp"

#include <algorithm>

#include <lockstep/error.hpp>

#include "input/host_rows.hpp"

namespace lockstep::detail {
namespace {

FlatElement slice_rows(const FlatElement& element, std::int64_t begin, std::int64_t end) {
  FlatElement slices;
  slices.reserve(element.size());
  for (const Tensor& leaf : element) slices.push_back(leaf.slice(begin, end));
  return slices;
}

}  // namespace

FlatElement empty_like(const FlatElement& element) { return slice_rows(element, 0, 0); }

std::optional<FlatElement> CeilingSplitPass::next() {
  if (slice_ == 0) {
    std::optional<FlatElement> batch = batches_->next();
    if (!batch) return std::nullopt;
    batch_ = std::move(*batch);
  }
  FlatElement slices;
  slices.reserve(batch_.size());
  for (const Tensor& leaf : batch_) {
    LOCKSTEP_EXPECTS(leaf.rank() > 0, InvalidArgument,
                     "distribute_dataset: an element has a scalar component, ", describe(leaf),
                     ", which cannot be split over replicas. Batch the dataset first.");
    const std::int64_t num_rows = leaf.shape()[0];
    const std::int64_t size = num_rows / num_slices_ + (num_rows % num_slices_ != 0 ? 1 : 0);
    slices.push_back(leaf.slice(std::min(slice_ * size, num_rows), std::min((slice_ + 1) * size, num_rows)));
  }
  slice_ = (slice_ + 1) % num_slices_;
  if (slice_ == 0) batch_.clear();  // its memory is the slices'
  return slices;
}

bool BalancedSplitPass::fetch() {
  while (!ended_ && next_row_ == num_rows_) {
    std::optional<FlatElement> batch = batches_->next();
    ended_ = !batch;
    if (ended_) break;
    for (const Tensor& leaf : *batch)
      LOCKSTEP_EXPECTS(
          leaf.rank() > 0 && leaf.shape()[0] == (*batch)[0].shape()[0], InvalidArgument,
          "distribute_dataset: the components ", describe((*batch)[0]), " and ", describe(leaf),
          " of a batch are not rows of equal number, so they cannot be cut into balanced slices. "
          "Pass AutoShardPolicy::data, which splits every component by itself.");
    num_rows_ = (*batch)[0].shape()[0];
    next_row_ = 0;
    batch_ = std::move(*batch);
  }
  return !ended_;
}

std::optional<FlatElement> BalancedSplitPass::next() {
  std::int64_t missing = sizes_[slice_];
  slice_ = (slice_ + 1) % sizes_.size();
  if (missing == 0) {
    // Reads no row, but needs a batch to know the other extents.
    if (ended_ || (batch_.empty() && !fetch())) return std::nullopt;
    return empty_like(batch_);
  }
  std::vector<FlatElement> pieces;
  while (missing > 0 && fetch()) {
    const std::int64_t size = std::min(missing, num_rows_ - next_row_);
    pieces.push_back(slice_rows(batch_, next_row_, next_row_ + size));
    next_row_ += size;
    missing -= size;
  }
  if (pieces.empty()) return std::nullopt;
  if (pieces.size() == 1) return std::move(pieces[0]);
  FlatElement whole;
  for (std::size_t leaf = 0; leaf < pieces[0].size(); ++leaf) {
    std::vector<Tensor> parts;
    for (const FlatElement& piece : pieces) parts.push_back(piece[leaf]);
    whole.push_back(concatenate_rows(parts, "distribute_dataset"));
  }
  return whole;
}

}  // namespace lockstep::detail
