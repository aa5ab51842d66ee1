#include "input/distribution/splitting.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <lockstep/error.hpp>
#include <lockstep/input/sharding.hpp>

#include "detail/expects.hpp"
#include "input/state/pipeline_state.hpp"

namespace lockstep::detail {
namespace {

std::vector<std::int64_t> ceiling_sizes(std::int64_t num_rows, std::size_t num_slices) {
  const auto n = static_cast<std::int64_t>(num_slices);
  const std::int64_t most = num_rows / n + (num_rows % n != 0 ? 1 : 0);
  std::vector<std::int64_t> sizes;
  while (sizes.size() < num_slices) {
    sizes.push_back(std::min(most, num_rows));
    num_rows -= sizes.back();
  }
  return sizes;
}

/// Apportions rows by the largest remainder method.
std::vector<std::int64_t> weighted_sizes(std::int64_t num_rows, const std::vector<double>& weights) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  double total = 0;  // sum of the weights divided by the largest, which cannot overflow
  for (const double weight : weights) total += weight / largest;

  std::vector<std::int64_t> sizes;
  std::vector<double> remainders;
  std::int64_t num_left = num_rows;
  for (const double weight : weights) {
    const double quota = static_cast<double>(num_rows) * (weight / largest / total);
    // Rounding must not give more rows than are left.
    sizes.push_back(std::min(static_cast<std::int64_t>(quota), num_left));
    remainders.push_back(quota - std::floor(quota));
    num_left -= sizes.back();
  }
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  for (std::size_t i = 0; num_left > 0; i = (i + 1) % order.size(), --num_left) ++sizes[order[i]];
  return sizes;
}

}  // namespace

void SplitRule::check(std::string_view what) const {
  if (split != BatchSplit::weighted) {
    LOCKSTEP_EXPECTS(weights.empty(), InvalidArgument, what, ": there are ", weights.size(),
                     " batch_weights, but batch_split is ", split,
                     ". Pass BatchSplit::weighted, or no weights.");
    return;
  }
  LOCKSTEP_EXPECTS(weights.size() == num_slices, InvalidArgument, what, ": there are ", weights.size(),
                   " batch_weights for ", num_slices, " replicas. Pass one for each.");
  for (std::size_t i = 0; i < weights.size(); ++i)
    LOCKSTEP_EXPECTS(std::isfinite(weights[i]) && weights[i] >= 0, InvalidArgument, what, ": batch_weights[",
                     i, "] is ", weights[i], ". Pass finite numbers of at least 0.");
  LOCKSTEP_EXPECTS(std::any_of(weights.begin(), weights.end(), [](double weight) { return weight > 0; }),
                   InvalidArgument, what, ": all ", weights.size(),
                   " batch_weights are 0, so no replica would get a row. Pass one above 0.");
}

std::vector<std::int64_t> SplitRule::sizes(std::int64_t num_rows) const {
  switch (split) {
    case BatchSplit::ceiling: return ceiling_sizes(num_rows, num_slices);
    case BatchSplit::balanced:
      if (num_rows == 0) return std::vector<std::int64_t>(num_slices);
      return balanced_batch_sizes(num_rows, InputContext(1, 0, static_cast<int>(num_slices)));
    case BatchSplit::weighted: break;
  }
  return weighted_sizes(num_rows, weights);
}

std::optional<Part> WholeIterator::next() {
  const std::optional<BatchHandle> batch = batches_.next();
  return batch ? std::optional(whole(*batch)) : std::nullopt;
}

bool BatchSplitIterator::fetch() {
  const std::optional<BatchHandle> batch = batches_.next();
  if (!batch) return false;
  const std::size_t num_leaves = (*batch)->num_leaves();
  std::vector<Part> parts;
  const auto is_own = [this](std::size_t slice) { return slice % num_workers_ == index_; };
  for (std::size_t slice = 0; slice < rule_.num_slices; ++slice)
    if (is_own(slice)) parts.push_back({{*batch, std::vector<RowRange>(num_leaves)}});
  for (std::size_t leaf = 0; leaf < num_leaves; ++leaf) {
    const LeafType type = (*batch)->leaf(leaf);
    LOCKSTEP_EXPECTS(type.shape.rank() > 0, InvalidArgument,
                     "distribute_dataset: an element has a scalar component, ", describe(type),
                     ", which cannot be split over replicas. Batch the dataset first.");
    const std::vector<std::int64_t> sizes = rule_.sizes(type.shape[0]);
    std::int64_t begin = 0;
    for (std::size_t slice = 0; slice < rule_.num_slices; ++slice) {
      if (is_own(slice)) parts[slice / num_workers_][0].rows[leaf] = {begin, begin + sizes[slice]};
      begin += sizes[slice];
    }
  }
  parts_ = std::move(parts);
  next_ = std::exchange(first_, 0);
  return true;
}

std::optional<BatchMark> BatchSplitIterator::mark() const {
  if (next_ == parts_.size()) return BatchMark{batches_.num_given(), 0, first_};
  return BatchMark{batches_.num_given() - 1, 0, next_};
}

std::size_t BatchSplitIterator::num_slices() const {
  return (rule_.num_slices - index_ + num_workers_ - 1) / num_workers_;
}

void BatchSplitIterator::leave_out(std::size_t num_slices, std::size_t slice) {
  SplitRule rule = rule_;
  rule.num_slices = num_slices;
  LOCKSTEP_EXPECTS(rule.weights.empty() || rule.weights.size() == num_slices, InvalidArgument,
                   "restore_state: the state has a batch of which ", slice, " of ", num_slices,
                   " slices were taken, and there are batch_weights for ", rule.weights.size(),
                   ". Restore it on as many replicas.");
  batches_.edit_first([&](const BatchHandle& batch) {
    std::vector<RowRange> rows;
    for (const LeafType& leaf : leaves_of(*batch)) {
      const std::int64_t end = leaf.shape.rank() > 0 ? leaf.shape[0] : 0;
      const std::vector<std::int64_t> sizes = rule.sizes(end);
      rows.push_back({std::accumulate(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(slice),
                                      std::int64_t{0}),
                      end});
    }
    return rows_of(batch, rows);
  });
}

std::optional<Part> BatchSplitIterator::next() {
  if (next_ == parts_.size() && !fetch()) return std::nullopt;
  return std::move(parts_[next_++]);
}

bool BalancedSplitIterator::fetch() {
  while (!ended_ && next_row_ == num_rows_) {
    std::optional<BatchHandle> batch = batches_.next();
    ended_ = !batch;
    if (ended_) break;
    const std::vector<LeafType> leaves = leaves_of(**batch);
    for (const LeafType& type : leaves) {
      const LeafType& first = leaves[0];
      LOCKSTEP_EXPECTS(
          type.shape.rank() > 0 && type.shape[0] == first.shape[0], InvalidArgument,
          "distribute_dataset: the components ", describe(first), " and ", describe(type),
          " of a batch are not rows of equal number, so they cannot be cut into balanced slices. "
          "Pass AutoShardPolicy::data, which splits every component by itself.");
    }
    // A batch without components is a whole one, which every replica gets.
    num_rows_ =
        leaves.empty() ? std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}) : leaves[0].shape[0];
    next_row_ = 0;
    batch_ = std::move(*batch);
  }
  return !ended_;
}

std::optional<BatchMark> BalancedSplitIterator::mark() const {
  if (!part_.empty()) return std::nullopt;
  const bool has_rows = next_row_ < num_rows_;
  return BatchMark{batches_.num_given() - (has_rows ? 1 : 0), has_rows ? next_row_ : 0, slice_};
}

bool BalancedSplitIterator::fill() {
  if (sizes_[slice_] == 0) {
    // This reads no row, but needs a batch to know the other extents.
    if (ended_ || (!batch_ && !fetch())) return false;
    part_ = empty_part(leaves_of(*batch_));
  }
  while (part_rows_ < sizes_[slice_] && fetch()) {
    const std::int64_t size = std::min(sizes_[slice_] - part_rows_, num_rows_ - next_row_);
    part_.push_back({batch_, std::vector<RowRange>(batch_->num_leaves(), {next_row_, next_row_ + size})});
    next_row_ += size;
    part_rows_ += size;
  }
  return !part_.empty();
}

std::optional<Part> BalancedSplitIterator::next() {
  const auto begin = [this](std::size_t slice) {
    slice_ = slice;
    part_rows_ = 0;
    return std::exchange(part_, {});
  };
  try {
    if (!fill()) return std::nullopt;
  } catch (...) {
    if (leaves_out_steps_) begin(0);
    throw;
  }
  return begin((slice_ + 1) % sizes_.size());
}

}  // namespace lockstep::detail
