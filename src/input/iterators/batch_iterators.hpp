#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "input/rows/batch.hpp"

namespace lockstep::detail {

/// The elements of a table, one by one.
class TableIterator final : public Iterator<FlatElement> {
 public:
  TableIterator(const TableRows& rows, const IterationKey& key) : table_(rows.table), rows_(rows.open(key)) {}
  std::optional<FlatElement> next() override;

 private:
  std::shared_ptr<const RowTable> table_;
  std::unique_ptr<Iterator<std::int64_t>> rows_;
};

/// Batches of a table's rows.
class TableBatchIterator final : public Iterator<BatchHandle> {
 public:
  TableBatchIterator(const TableRows& rows, const IterationKey& key, std::int64_t batch_size,
                     bool drop_remainder)
      : table_(rows.table),
        rows_(rows.open(key)),
        batch_size_(static_cast<std::size_t>(batch_size)),
        drop_(drop_remainder) {}
  std::optional<BatchHandle> next() override;

 private:
  std::shared_ptr<const RowTable> table_;
  std::unique_ptr<Iterator<std::int64_t>> rows_;
  std::size_t batch_size_;
  bool drop_;
};

/// Stacks any elements into batches.
class StackBatchIterator final : public Iterator<BatchHandle> {
 public:
  StackBatchIterator(std::unique_ptr<Iterator<FlatElement>> input, std::int64_t batch_size,
                     bool drop_remainder)
      : input_(std::move(input)), batch_size_(static_cast<std::size_t>(batch_size)), drop_(drop_remainder) {}
  std::optional<BatchHandle> next() override;

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::size_t batch_size_;
  bool drop_;
  std::vector<std::vector<Tensor>> columns_;  // of the batch that is being gathered, as StackedBatch has them
  std::size_t num_elements_ = 0;              // gathered in it
};

/// Presents elements as batches.
class ElementBatchIterator final : public Iterator<BatchHandle> {
 public:
  explicit ElementBatchIterator(std::unique_ptr<Iterator<FlatElement>> input) : input_(std::move(input)) {}
  std::optional<BatchHandle> next() override;

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
};

/// Presents batches as elements.
class GatherIterator final : public Iterator<FlatElement> {
 public:
  explicit GatherIterator(std::unique_ptr<Iterator<BatchHandle>> input) : input_(std::move(input)) {}
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Iterator<BatchHandle>> input_;
};

}  // namespace lockstep::detail
