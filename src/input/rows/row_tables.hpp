#pragma once

#include <utility>
#include <vector>

#include "input/pipeline/pipeline.hpp"

namespace lockstep::detail {

/// Slices of tensors along their first axis.
class TensorRows final : public RowTable {
 public:
  /// @pre there is at least one tensor; all are contiguous, on the host, with equal numbers of rows.
  explicit TensorRows(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}

  std::int64_t num_rows() const noexcept override { return tensors_[0].shape()[0]; }
  std::size_t num_leaves() const noexcept override { return tensors_.size(); }
  LeafType leaf(std::size_t index, std::int64_t num_rows) const override;
  void gather(std::size_t leaf, std::span<const std::int64_t> rows, std::byte* destination) const override;

 private:
  std::vector<Tensor> tensors_;
};

/// The numbers start, start + step, …
class RangeRows final : public RowTable {
 public:
  RangeRows(std::int64_t start, std::int64_t step, std::int64_t num_rows)
      : start_(start), step_(step), num_rows_(num_rows) {}

  std::int64_t num_rows() const noexcept override { return num_rows_; }
  std::size_t num_leaves() const noexcept override { return 1; }
  LeafType leaf(std::size_t, std::int64_t num_rows) const override { return {Shape(num_rows), DType::i64}; }
  void gather(std::size_t leaf, std::span<const std::int64_t> rows, std::byte* destination) const override;

 private:
  std::int64_t start_;
  std::int64_t step_;
  std::int64_t num_rows_;
};

}  // namespace lockstep::detail
