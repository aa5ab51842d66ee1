#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/input/input_options.hpp>

#include "input/rows/part.hpp"

/// Iterators over the parts of batches that replicas get.
namespace lockstep::detail {

/// The rule by which the rows of one batch are divided.
struct SplitRule {
  BatchSplit split = BatchSplit::ceiling;
  std::size_t num_slices = 1;
  std::vector<double> weights;  ///< One for each slice, with BatchSplit::weighted.

  /// @throws InvalidArgument  InputOptions::batch_weights are invalid; names `what`.
  void check(std::string_view what) const;
  /// The slices' numbers of rows, which add up to num_rows.
  std::vector<std::int64_t> sizes(std::int64_t num_rows) const;
};

/// Passes each batch whole.
class WholeIterator final : public Iterator<Part> {
 public:
  explicit WholeIterator(std::unique_ptr<Iterator<BatchHandle>> batches) : batches_(std::move(batches)) {}
  std::optional<Part> next() override;

 private:
  std::unique_ptr<Iterator<BatchHandle>> batches_;
};

/// Splits each batch separately and each component by its own rows, and keeps slices index, index +
/// num_workers, …
class BatchSplitIterator final : public Iterator<Part> {
 public:
  BatchSplitIterator(std::unique_ptr<Iterator<BatchHandle>> batches, SplitRule rule,
                     std::size_t num_workers = 1, std::size_t index = 0)
      : batches_(std::move(batches)), rule_(std::move(rule)), num_workers_(num_workers), index_(index) {}
  /// @throws InvalidArgument  a component is a scalar.
  std::optional<Part> next() override;

 private:
  /// Fills `parts_`. @return false at the end.
  bool fetch();

  std::unique_ptr<Iterator<BatchHandle>> batches_;
  SplitRule rule_;
  std::size_t num_workers_, index_;
  std::vector<Part> parts_;  // of one batch
  std::size_t next_ = 0;     // index in parts_
};

/// Treats all batches as one sequence of rows and cuts it into slices of the given sizes, over and over. The
/// last slice may be shorter.
class BalancedSplitIterator final : public Iterator<Part> {
 public:
  /// @param sizes  not all 0.
  /// @param leaves_out_steps  whether it begins with the first size after an exception; if not, it continues
  /// with the rows that it has.
  BalancedSplitIterator(std::unique_ptr<Iterator<BatchHandle>> batches, std::vector<std::int64_t> sizes,
                        bool leaves_out_steps = false)
      : batches_(std::move(batches)), sizes_(std::move(sizes)), leaves_out_steps_(leaves_out_steps) {}
  /// @throws InvalidArgument  a component is a scalar, or the components of one batch have different numbers
  /// of rows.
  std::optional<Part> next() override;

 private:
  /// Makes `batch_` a batch with rows left. @return false at the end.
  bool fetch();
  /// Completes `part_`. @return false at the end.
  bool fill();

  std::unique_ptr<Iterator<BatchHandle>> batches_;
  std::vector<std::int64_t> sizes_;
  bool leaves_out_steps_;
  std::size_t slice_ = 0;  // position in sizes_
  Part part_;              // the rows of that slice so far
  std::int64_t part_rows_ = 0;
  BatchHandle batch_;
  std::int64_t next_row_ = 0;
  std::int64_t num_rows_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep::detail
