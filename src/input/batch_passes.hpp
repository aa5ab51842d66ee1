#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "input/batch.hpp"

namespace lockstep::detail {

/// The elements of a table, one by one.
class TablePass final : public Pass<FlatElement> {
 public:
  TablePass(const TableRows& rows, const PassKey& key) : table_(rows.table), rows_(rows.open(key)) {}
  std::optional<FlatElement> next() override;

 private:
  std::shared_ptr<const RowTable> table_;
  std::unique_ptr<Pass<std::int64_t>> rows_;
};

/// Batches of a table's rows.
class TableBatchPass final : public Pass<BatchHandle> {
 public:
  TableBatchPass(const TableRows& rows, const PassKey& key, std::int64_t batch_size, bool drop_remainder)
      : table_(rows.table),
        rows_(rows.open(key)),
        batch_size_(static_cast<std::size_t>(batch_size)),
        drop_(drop_remainder) {}
  std::optional<BatchHandle> next() override;

 private:
  std::shared_ptr<const RowTable> table_;
  std::unique_ptr<Pass<std::int64_t>> rows_;
  std::size_t batch_size_;
  bool drop_;
};

/// Batches of any elements.
class StackBatchPass final : public Pass<BatchHandle> {
 public:
  StackBatchPass(std::unique_ptr<Pass<FlatElement>> input, std::int64_t batch_size, bool drop_remainder)
      : input_(std::move(input)), batch_size_(static_cast<std::size_t>(batch_size)), drop_(drop_remainder) {}
  std::optional<BatchHandle> next() override;

 private:
  std::unique_ptr<Pass<FlatElement>> input_;
  std::size_t batch_size_;
  bool drop_;
  std::vector<std::vector<Tensor>> columns_;  // of the batch that is being gathered, as StackedBatch has them
  std::size_t num_elements_ = 0;              // in it
};

/// Elements as batches.
class ElementBatchPass final : public Pass<BatchHandle> {
 public:
  explicit ElementBatchPass(std::unique_ptr<Pass<FlatElement>> input) : input_(std::move(input)) {}
  std::optional<BatchHandle> next() override;

 private:
  std::unique_ptr<Pass<FlatElement>> input_;
};

/// Batches as elements.
class GatherPass final : public Pass<FlatElement> {
 public:
  explicit GatherPass(std::unique_ptr<Pass<BatchHandle>> input) : input_(std::move(input)) {}
  std::optional<FlatElement> next() override;

 private:
  std::unique_ptr<Pass<BatchHandle>> input_;
};

}  // namespace lockstep::detail
