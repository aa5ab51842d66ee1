#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

/// "[4, 3] float32", for messages.
std::string describe(const LeafType& type);

/// Rows [begin, end).
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// An element whose rows are still at their origin. Immutable; any threads may use it.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual std::size_t num_leaves() const noexcept = 0;
  virtual LeafType leaf(std::size_t index) const = 0;
  /// Copies consecutive rows of a leaf; a scalar counts as row 0.
  virtual void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const = 0;
  /// A view of the rows at their origin, as if on that CPU; the tensor keeps them alive. Nothing if no view
  /// is possible, or if others would see writes to it.
  virtual std::optional<Tensor> view(std::size_t, RowRange, const Device&) const { return std::nullopt; }
};

/// Rows of a table.
class TableBatch final : public Batch {
 public:
  TableBatch(std::shared_ptr<const RowTable> table, std::vector<std::int64_t> rows)
      : table_(std::move(table)), rows_(std::move(rows)) {}

  const std::shared_ptr<const RowTable>& table() const noexcept { return table_; }
  const std::vector<std::int64_t>& rows() const noexcept { return rows_; }
  std::size_t num_leaves() const noexcept override { return table_->num_leaves(); }
  LeafType leaf(std::size_t index) const override;
  void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const override;

 private:
  std::shared_ptr<const RowTable> table_;  // owners: as TableRows::table
  std::vector<std::int64_t> rows_;
};

/// Elements that are to be stacked along a new first axis.
class StackedBatch final : public Batch {
 public:
  /// @param columns  for each leaf the elements' rows. @pre no column is empty; all have as many rows.
  /// @param what  the call that messages name. @throws InvalidArgument  the shapes or dtypes of a column
  /// differ.
  explicit StackedBatch(std::vector<std::vector<RowRun>> columns, std::string_view what = "Dataset::batch");

  std::size_t num_leaves() const noexcept override { return columns_.size(); }
  LeafType leaf(std::size_t index) const override { return leaves_[index]; }
  void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const override;

 private:
  std::vector<std::vector<RowRun>> columns_;
  std::vector<LeafType> leaves_;
};

/// An element whose tensors exist already.
class TensorBatch final : public Batch, public std::enable_shared_from_this<TensorBatch> {
 public:
  /// @pre the tensors are on the host.
  explicit TensorBatch(FlatElement&& leaves);

  std::size_t num_leaves() const noexcept override { return leaves_.size(); }
  LeafType leaf(std::size_t index) const override;
  void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const override;
  /// @pre a shared_ptr owns this.
  std::optional<Tensor> view(std::size_t leaf, RowRange rows, const Device& device) const override;

 private:
  FlatElement leaves_;
  std::vector<bool> is_own_;    // for each leaf, whether only the batch uses its memory
  mutable Buffer no_memory_{};  // views keep the batch alive through it
};

/// A batch without rows.
class EmptyBatch final : public Batch {
 public:
  /// @pre no leaf is a scalar.
  explicit EmptyBatch(std::vector<LeafType> leaves) : leaves_(std::move(leaves)) {}

  std::size_t num_leaves() const noexcept override { return leaves_.size(); }
  LeafType leaf(std::size_t index) const override {
    return {leaves_[index].shape.with(0, 0), leaves_[index].dtype};
  }
  void copy_rows(std::size_t, RowRange, std::byte*) const override {}

 private:
  std::vector<LeafType> leaves_;
};

}  // namespace lockstep::detail
