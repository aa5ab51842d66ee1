#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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

/// An element whose rows are still where they come from. Immutable; used from any threads.
class Batch {
 public:
  virtual ~Batch() = default;
  virtual std::size_t num_leaves() const noexcept = 0;
  virtual LeafType leaf(std::size_t index) const = 0;
  /// Copies rows of a leaf, one after the other; of a scalar row 0.
  virtual void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const = 0;
  /// The rows where they are, which the tensor keeps alive, as if on that CPU; nothing where that is not
  /// possible, or somebody else would see what is written to them.
  virtual std::optional<Tensor> view(std::size_t, RowRange, const Device&) const { return std::nullopt; }
};

/// Rows of a table.
class TableBatch final : public Batch {
 public:
  TableBatch(std::shared_ptr<const RowTable> table, std::vector<std::int64_t> rows)
      : table_(std::move(table)), rows_(std::move(rows)) {}

  std::size_t num_leaves() const noexcept override { return table_->num_leaves(); }
  LeafType leaf(std::size_t index) const override;
  void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const override;

 private:
  std::shared_ptr<const RowTable> table_;  // owners: as TableRows::table
  std::vector<std::int64_t> rows_;
};

/// Elements to be stacked along a new first axis.
class StackedBatch final : public Batch {
 public:
  /// @param columns  of each leaf the elements' tensors. @pre none is empty.
  /// @throws InvalidArgument  the shapes or dtypes of a column differ.
  explicit StackedBatch(std::vector<std::vector<Tensor>> columns);

  std::size_t num_leaves() const noexcept override { return columns_.size(); }
  LeafType leaf(std::size_t index) const override;
  void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const override;

 private:
  std::vector<std::vector<Tensor>> columns_;
};

/// An element that is there already.
class TensorBatch final : public Batch, public std::enable_shared_from_this<TensorBatch> {
 public:
  /// @pre on the host.
  explicit TensorBatch(FlatElement&& leaves);

  std::size_t num_leaves() const noexcept override { return leaves_.size(); }
  LeafType leaf(std::size_t index) const override;
  void copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const override;
  /// @pre owned by a shared_ptr.
  std::optional<Tensor> view(std::size_t leaf, RowRange rows, const Device& device) const override;

 private:
  FlatElement leaves_;
  std::vector<bool> is_own_;    // of each leaf, whether the batch alone uses its memory
  mutable Buffer no_memory_{};  // what views keep is the batch
};

/// No rows.
class EmptyBatch final : public Batch {
 public:
  /// @pre none is a scalar.
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
