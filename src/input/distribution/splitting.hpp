#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/input/input_options.hpp>

#include "input/rows/part.hpp"

/// Passes over what replicas get of batches.
namespace lockstep::detail {

/// How the rows of one batch are divided.
struct SplitRule {
  BatchSplit split = BatchSplit::ceiling;
  std::size_t num_slices = 1;
  std::vector<double> weights;  ///< With BatchSplit::weighted, one for each slice.

  /// @throws InvalidArgument  names `what`: InputOptions::batch_weights are not as they must be.
  void check(std::string_view what) const;
  /// The slices' numbers of rows, which add up to num_rows.
  std::vector<std::int64_t> sizes(std::int64_t num_rows) const;
};

/// Each batch whole.
class WholeIterator final : public Iterator<Part> {
 public:
  explicit WholeIterator(std::unique_ptr<Iterator<BatchHandle>> batches) : batches_(std::move(batches)) {}
  std::optional<Part> next() override;

 private:
  std::unique_ptr<Iterator<BatchHandle>> batches_;
};

/// Each batch by itself, every component by its own rows: slices index, index + num_workers, … of each.
class BatchSplitIterator final : public Iterator<Part> {
 public:
  BatchSplitIterator(std::unique_ptr<Iterator<BatchHandle>> batches, SplitRule rule,
                     std::size_t num_workers = 1, std::size_t index = 0)
      : batches_(std::move(batches)), rule_(std::move(rule)), num_workers_(num_workers), index_(index) {}
  /// @throws InvalidArgument  a scalar component.
  std::optional<Part> next() override;

 private:
  /// Fills `parts_`. @return false at the end.
  bool fetch();

  std::unique_ptr<Iterator<BatchHandle>> batches_;
  SplitRule rule_;
  std::size_t num_workers_, index_;
  std::vector<Part> parts_;  // of a batch
  std::size_t next_ = 0;     // in parts_
};

/// All batches as one sequence of rows, cut into slices of the given sizes, over and over. The last slice may
/// be shorter.
class BalancedSplitIterator final : public Iterator<Part> {
 public:
  /// @param sizes  not all 0.
  /// @param leaves_out_steps  after an exception it begins with the first size; else it goes on with the rows
  /// that it has.
  BalancedSplitIterator(std::unique_ptr<Iterator<BatchHandle>> batches, std::vector<std::int64_t> sizes,
                        bool leaves_out_steps = false)
      : batches_(std::move(batches)), sizes_(std::move(sizes)), leaves_out_steps_(leaves_out_steps) {}
  /// @throws InvalidArgument  a scalar component; components of one batch with different numbers of rows.
  std::optional<Part> next() override;

 private:
  /// Makes `batch_` one with rows left. @return false at the end.
  bool fetch();
  /// Gives `part_` all its rows. @return false at the end.
  bool fill();

  std::unique_ptr<Iterator<BatchHandle>> batches_;
  std::vector<std::int64_t> sizes_;
  bool leaves_out_steps_;
  std::size_t slice_ = 0;  // position in sizes_
  Part part_;              // of that slice, so far
  std::int64_t part_rows_ = 0;
  BatchHandle batch_;
  std::int64_t next_row_ = 0;
  std::int64_t num_rows_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep::detail
