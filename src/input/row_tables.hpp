#pragma once

#include <vector>

#include <lockstep/detail/pipeline.hpp>

namespace lockstep::detail {

/// Slices of tensors along their first axis.
class TensorRows final : public RowTable {
 public:
  /// @pre at least one; contiguous, on the host, with equal numbers of rows.
  explicit TensorRows(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}

  std::int64_t num_rows() const noexcept override { return tensors_[0].shape()[0]; }
  FlatElement gather(std::span<const std::int64_t> rows) const override;

 private:
  std::vector<Tensor> tensors_;
};

/// start, start + step, …
class RangeRows final : public RowTable {
 public:
  RangeRows(std::int64_t start, std::int64_t step, std::int64_t num_rows)
      : start_(start), step_(step), num_rows_(num_rows) {}

  std::int64_t num_rows() const noexcept override { return num_rows_; }
  FlatElement gather(std::span<const std::int64_t> rows) const override;

 private:
  std::int64_t start_;
  std::int64_t step_;
  std::int64_t num_rows_;
};

}  // namespace lockstep::detail
