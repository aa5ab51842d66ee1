#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/input/input_options.hpp>

#include "input/distribution/pending_batches.hpp"
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

/// Iterates over the parts of batches that a step is made of.
class PartIterator : public Iterator<Part> {
 public:
  /// What the user has had once it has the step that has just been made of the parts, or its exception.
  /// @param is_whole  false: parts were taken, and are kept for the next step.
  virtual SeenBatches seen_after_step(bool is_whole) = 0;
  /// Forgets what the user has seen. Any thread may call.
  virtual void set_seen(const SeenBatches& seen) = 0;
};

/// The most slices of a batch that a state may have: replicas of a strategy.
inline constexpr std::size_t kMostSlices = std::size_t{1} << 20;

/// A PartIterator over the batches of a dataset.
class SplitIterator : public PartIterator {
 public:
  SeenBatches seen_after_step(bool is_whole) final {
    made_.num_given = batches_.num_given();
    const std::optional<BatchMark> place = mark();
    if (is_whole && place) made_.next = *place;
    return made_;
  }
  void set_seen(const SeenBatches& seen) final {
    seen_ = seen;
    batches_.set_seen(seen);
  }
  /// Writes what the user has not seen; or adds a worker's share to what is read.
  void transfer(PassState& state) final {
    std::size_t slice = seen_.next.slice, num = slice > 0 ? num_slices() : 0;
    const bool is_first = !batches_.has_shares();
    state(batches_, num, slice);
    if (state.is_saving()) return;
    if (slice > 0 && (slice >= num || num > kMostSlices)) state.fail("there is no such slice");
    if (slice == 0) return;
    if (!is_first || num != num_slices()) return leave_out(num, slice);
    go_to(slice);
    made_.next.slice = seen_.next.slice = slice;
  }

 protected:
  explicit SplitIterator(PendingBatches batches) : batches_(std::move(batches)) {}

  /// Where the next part begins; nothing: in the midst of a step.
  virtual std::optional<BatchMark> mark() const { return BatchMark{batches_.num_given(), 0, 0}; }
  /// How many slices follow each other in turn.
  virtual std::size_t num_slices() const { return 1; }
  /// Begins with this slice.
  virtual void go_to(std::size_t) {}
  /// Leaves rows out of the share that was read last: the first slices of so many.
  virtual void leave_out(std::size_t /*num_slices*/, std::size_t /*slice*/) {}

  PendingBatches batches_;

 private:
  SeenBatches made_;  // used by the thread that makes steps
  SeenBatches seen_;  // used by the user's
};

/// Passes each batch whole.
class WholeIterator final : public SplitIterator {
 public:
  explicit WholeIterator(PendingBatches batches) : SplitIterator(std::move(batches)) {}
  std::optional<Part> next() override;
};

/// Splits each batch separately and each component by its own rows, and keeps slices index, index +
/// num_workers, …
class BatchSplitIterator final : public SplitIterator {
 public:
  BatchSplitIterator(PendingBatches batches, SplitRule rule, std::size_t num_workers = 1,
                     std::size_t index = 0)
      : SplitIterator(std::move(batches)), rule_(std::move(rule)), num_workers_(num_workers), index_(index) {}
  /// @throws InvalidArgument  a component is a scalar.
  std::optional<Part> next() override;

 private:
  std::optional<BatchMark> mark() const override;
  std::size_t num_slices() const override;
  void go_to(std::size_t slice) override { first_ = slice; }
  void leave_out(std::size_t num_slices, std::size_t slice) override;
  /// Fills `parts_`. @return false at the end.
  bool fetch();

  SplitRule rule_;
  std::size_t num_workers_, index_;
  std::vector<Part> parts_;  // of one batch
  std::size_t next_ = 0;     // index in parts_
  std::size_t first_ = 0;    // of the next batch's parts
};

/// Treats all batches as one sequence of rows and cuts it into slices of the given sizes, over and over. The
/// last slice may be shorter.
class BalancedSplitIterator final : public SplitIterator {
 public:
  /// @param sizes  not all 0.
  /// @param leaves_out_steps  whether it begins with the first size after an exception; if not, it continues
  /// with the rows that it has.
  BalancedSplitIterator(PendingBatches batches, std::vector<std::int64_t> sizes,
                        bool leaves_out_steps = false)
      : SplitIterator(std::move(batches)), sizes_(std::move(sizes)), leaves_out_steps_(leaves_out_steps) {}
  /// @throws InvalidArgument  a component is a scalar, or the components of one batch have different numbers
  /// of rows.
  std::optional<Part> next() override;

 private:
  std::optional<BatchMark> mark() const override;
  std::size_t num_slices() const override { return sizes_.size(); }
  void go_to(std::size_t slice) override { slice_ = slice; }
  /// Makes `batch_` a batch with rows left. @return false at the end.
  bool fetch();
  /// Completes `part_`. @return false at the end.
  bool fill();

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
