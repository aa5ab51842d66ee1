#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/input/padded_batch_options.hpp>

#include "input/iterators/columns.hpp"
#include "input/rows/batch.hpp"

namespace lockstep::detail {

/// Stacks elements into batches, padded.
class PaddedBatchIterator final : public Iterator<BatchHandle> {
 public:
  PaddedBatchIterator(std::unique_ptr<Iterator<FlatElement>> input, std::int64_t batch_size,
                      PaddedBatchOptions options)
      : input_(std::move(input)), batch_size_(batch_size), options_(std::move(options)) {}
  std::optional<BatchHandle> next() override;
  void transfer(PassState& state) override { state(*input_, rows_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::int64_t batch_size_;
  PaddedBatchOptions options_;
  Columns rows_;  // of the batch that is being gathered; kept if the input throws
};

/// Gathers elements in buckets by their lengths, and stacks those of a bucket into a batch, padded.
class BucketIterator final : public Iterator<BatchHandle> {
 public:
  BucketIterator(std::unique_ptr<Iterator<FlatElement>> input, ElementLength length, BucketOptions options)
      : input_(std::move(input)), length_(std::move(length)), options_(std::move(options)) {}
  std::optional<BatchHandle> next() override;
  void transfer(PassState& state) override;

 private:
  BatchHandle take(std::size_t bucket);

  std::unique_ptr<Iterator<FlatElement>> input_;  // null at its end
  ElementLength length_;
  BucketOptions options_;
  std::int64_t index_ = 0;
  std::map<std::size_t, Columns> buckets_;  // those with elements
};

}  // namespace lockstep::detail
