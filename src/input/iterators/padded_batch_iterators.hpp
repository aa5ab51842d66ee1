#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/input/padded_batch_options.hpp>

#include "input/rows/batch.hpp"

namespace lockstep::detail {

/// For each leaf the tensors of the elements that have been gathered.
class Columns {
 public:
  void add(FlatElement&& element);
  std::int64_t num_rows() const noexcept { return num_rows_; }
  /// Takes what was gathered.
  std::vector<std::vector<Tensor>> take();

 private:
  std::vector<std::vector<Tensor>> columns_;
  std::int64_t num_rows_ = 0;
};

/// Stacks elements into batches, padded.
class PaddedBatchIterator final : public Iterator<BatchHandle> {
 public:
  PaddedBatchIterator(std::unique_ptr<Iterator<FlatElement>> input, std::int64_t batch_size,
                      PaddedBatchOptions options)
      : input_(std::move(input)), batch_size_(batch_size), options_(std::move(options)) {}
  std::optional<BatchHandle> next() override;

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

 private:
  BatchHandle take(std::size_t bucket);

  std::unique_ptr<Iterator<FlatElement>> input_;  // null at its end
  ElementLength length_;
  BucketOptions options_;
  std::int64_t index_ = 0;
  std::map<std::size_t, Columns> buckets_;  // those with elements
};

}  // namespace lockstep::detail
