#include "input/iterators/padded_batch_iterators.hpp"

#include <algorithm>

#include "detail/expects.hpp"
#include "input/pipeline/element_error.hpp"
#include "input/rows/padded_batch.hpp"
#include "input/rows/row_runs.hpp"

namespace lockstep::detail {

std::optional<BatchHandle> PaddedBatchIterator::next() {
  rows_.fill(*input_, batch_size_);
  const std::int64_t num_rows = rows_.num_rows();
  auto columns = rows_.take();
  if (num_rows == 0 || (options_.drop_remainder && num_rows < batch_size_)) return std::nullopt;
  return std::make_shared<const PaddedBatch>(std::move(columns), options_.padded_shapes,
                                             options_.padding_values, "Dataset::padded_batch");
}

std::optional<BatchHandle> BucketIterator::next() {
  while (input_) {
    const std::int64_t index = index_++;
    std::optional<FlatElement> element = input_->next();
    if (!element) {
      input_.reset();
      if (options_.padded_batch.drop_remainder) buckets_.clear();
      break;
    }
    const std::int64_t length =
        call_for_element("Dataset::bucket_by_sequence_length", index, [&] { return length_(*element); });
    const auto bucket = static_cast<std::size_t>(std::ranges::upper_bound(options_.boundaries, length) -
                                                 options_.boundaries.begin());
    Columns& rows = buckets_[bucket];
    rows.add(std::move(*element));
    if (rows.num_rows() == options_.batch_sizes[bucket]) return take(bucket);
  }
  if (buckets_.empty()) return std::nullopt;
  return take(buckets_.begin()->first);
}

void BucketIterator::transfer(PassState& state) {
  state(input_, index_);
  std::vector<std::size_t> indices;
  for (const auto& [bucket, rows] : buckets_) indices.push_back(bucket);
  state(indices);
  for (const std::size_t bucket : indices) {
    if (bucket >= options_.batch_sizes.size()) state.fail("there is no such bucket");
    state(buckets_[bucket]);
    if (buckets_[bucket].num_rows() < 1) state.fail("a bucket is empty");
  }
}

BatchHandle BucketIterator::take(std::size_t bucket) {
  std::vector<std::vector<RowRun>> columns = buckets_[bucket].take();
  buckets_.erase(bucket);
  std::vector<PaddedExtents> extents = options_.padded_batch.padded_shapes;
  if (options_.pad_to_boundary) {
    LOCKSTEP_EXPECTS(
        bucket < options_.boundaries.size(), InvalidArgument,
        "Dataset::bucket_by_sequence_length: an element is as long as the last boundary, ",
        options_.boundaries.back(),
        ", or longer, so that there is no boundary to pad to. Add one, or leave out pad_to_boundary.");
    if (extents.empty())
      for (const std::vector<RowRun>& column : columns)
        extents.emplace_back(static_cast<std::size_t>(row_shape(column.front(), 0).rank()));
    for (PaddedExtents& leaf : extents)
      for (std::optional<std::int64_t>& extent : leaf)
        if (!extent) extent = options_.boundaries[bucket] - 1;
  }
  return std::make_shared<const PaddedBatch>(std::move(columns), extents,
                                             options_.padded_batch.padding_values,
                                             "Dataset::bucket_by_sequence_length");
}

}  // namespace lockstep::detail
