#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "input/iterators/columns.hpp"
#include "input/rows/batch.hpp"
#include "input/state/pipeline_state.hpp"

namespace lockstep::detail {

/// The elements of a table, one by one.
class TableIterator final : public Iterator<FlatElement> {
 public:
  TableIterator(const TableRows& rows, const IterationKey& key) : table_(rows.table), rows_(rows.open(key)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override;

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
  void transfer(PassState& state) override;

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
      : input_(std::move(input)), batch_size_(batch_size), drop_(drop_remainder) {}
  std::optional<BatchHandle> next() override;
  void transfer(PassState& state) override { state(*input_, rows_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::int64_t batch_size_;
  bool drop_;
  Columns rows_;  // of the batch that is being gathered; kept if the input throws
};

/// Collects windows of values, elements or row numbers.
template <class T>
class Windows {
 public:
  /// @param span  how many values of the input a window reaches over.
  Windows(std::int64_t span, std::int64_t shift, std::int64_t stride, bool drop_remainder)
      : span_(static_cast<std::size_t>(span)),
        shift_(static_cast<std::size_t>(shift)),
        stride_(static_cast<std::size_t>(stride)),
        drop_(drop_remainder) {}

  /// The next window; empty at the end. If the input throws, the call after that goes on.
  std::vector<T> next(Iterator<T>& input) {
    for (; num_to_skip_ > 0 && !has_ended_; --num_to_skip_) has_ended_ = !input.next();
    while (!has_ended_ && values_.size() < span_) {
      if (std::optional<T> value = input.next())
        values_.push_back(std::move(*value));
      else
        has_ended_ = true;
    }
    std::vector<T> window;
    if (drop_ && values_.size() < span_) return window;
    for (std::size_t i = 0; i < values_.size(); i += stride_) window.push_back(values_[i]);
    const std::size_t num_passed = std::min(shift_, values_.size());
    values_.erase(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(num_passed));
    num_to_skip_ = shift_ - num_passed;
    return window;
  }
  void transfer(PassState& state) { state(values_, num_to_skip_, has_ended_); }

 private:
  std::size_t span_, shift_, stride_;
  bool drop_;
  std::deque<T> values_;  // not reserved: a span may exceed memory
  std::size_t num_to_skip_ = 0;
  bool has_ended_ = false;
};

/// Windows of a table's rows.
class TableWindowIterator final : public Iterator<BatchHandle> {
 public:
  TableWindowIterator(const TableRows& rows, const IterationKey& key, Windows<std::int64_t> windows)
      : table_(rows.table), rows_(rows.open(key)), windows_(std::move(windows)) {}
  std::optional<BatchHandle> next() override;
  void transfer(PassState& state) override;

 private:
  std::shared_ptr<const RowTable> table_;
  std::unique_ptr<Iterator<std::int64_t>> rows_;
  Windows<std::int64_t> windows_;
};

/// Windows of any elements.
class StackWindowIterator final : public Iterator<BatchHandle> {
 public:
  StackWindowIterator(std::unique_ptr<Iterator<FlatElement>> input, Windows<FlatElement> windows)
      : input_(std::move(input)), windows_(std::move(windows)) {}
  std::optional<BatchHandle> next() override;
  void transfer(PassState& state) override { state(*input_, windows_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  Windows<FlatElement> windows_;
};

/// The rows of elements, one by one.
class UnbatchIterator final : public Iterator<FlatElement> {
 public:
  explicit UnbatchIterator(std::unique_ptr<Iterator<FlatElement>> input) : input_(std::move(input)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override;

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
  std::int64_t index_ = 0;  // of the input's next element
  FlatElement batch_;
  std::int64_t row_ = 0, num_rows_ = 0;  // of batch_
};

/// Presents elements as batches.
class ElementBatchIterator final : public Iterator<BatchHandle> {
 public:
  explicit ElementBatchIterator(std::unique_ptr<Iterator<FlatElement>> input) : input_(std::move(input)) {}
  std::optional<BatchHandle> next() override;
  void transfer(PassState& state) override { state(*input_); }

 private:
  std::unique_ptr<Iterator<FlatElement>> input_;
};

/// Presents batches as elements.
class GatherIterator final : public Iterator<FlatElement> {
 public:
  explicit GatherIterator(std::unique_ptr<Iterator<BatchHandle>> input) : input_(std::move(input)) {}
  std::optional<FlatElement> next() override;
  void transfer(PassState& state) override { state(*input_); }

 private:
  std::unique_ptr<Iterator<BatchHandle>> input_;
};

}  // namespace lockstep::detail
