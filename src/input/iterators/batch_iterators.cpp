#include "input/iterators/batch_iterators.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include <lockstep/values/nest.hpp>

#include "detail/expects.hpp"
#include "input/pipeline/element_error.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/part.hpp"
#include "input/state/sealed_state.hpp"

namespace lockstep::detail {

namespace {

/// The rows come from a pass whose state may have been damaged.
void check_rows(const RowTable& table, std::span<const std::int64_t> rows) {
  const std::int64_t end = table.num_rows();
  for (const std::int64_t row : rows)
    LOCKSTEP_EXPECTS(0 <= row && row < end, InvalidArgument, kRestoreState, ": the state has row ", row,
                     " of a table of ", end, " rows. Pass a state as save_state gave it.");
}

void transfer_table(PassState& state, const std::shared_ptr<const RowTable>& table,
                    Iterator<std::int64_t>& rows) {
  state.add(table);
  state(rows);
}

}  // namespace

std::optional<FlatElement> TableIterator::next() {
  const std::optional<std::int64_t> row = rows_->next();
  if (!row) return std::nullopt;
  check_rows(*table_, {&*row, 1});
  FlatElement element;
  element.reserve(table_->num_leaves());
  for (std::size_t leaf = 0; leaf < table_->num_leaves(); ++leaf) {
    const LeafType type = table_->leaf(leaf, 1);
    Tensor& tensor = element.emplace_back(Tensor::empty(type.shape.without(0), type.dtype, input_device()));
    table_->gather(leaf, {&*row, 1}, static_cast<std::byte*>(tensor.data()));
  }
  return element;
}

void TableIterator::transfer(PassState& state) { transfer_table(state, table_, *rows_); }

std::optional<BatchHandle> TableBatchIterator::next() {
  std::vector<std::int64_t> batch;  // not reserved: batch_size may exceed memory
  while (batch.size() < batch_size_) {
    const std::optional<std::int64_t> row = rows_->next();
    if (!row) break;
    batch.push_back(*row);
  }
  if (batch.empty() || (drop_ && batch.size() < batch_size_)) return std::nullopt;
  check_rows(*table_, batch);
  return std::make_shared<const TableBatch>(table_, std::move(batch));
}

void TableBatchIterator::transfer(PassState& state) { transfer_table(state, table_, *rows_); }

std::optional<BatchHandle> StackBatchIterator::next() {
  rows_.fill(*input_, batch_size_);
  const std::int64_t num_rows = rows_.num_rows();
  auto columns = rows_.take();
  if (num_rows == 0 || (drop_ && num_rows < batch_size_)) return std::nullopt;
  const auto is_whole = [](const std::vector<RowRun>& runs) {
    return runs.size() == 1 && runs[0].ends.empty() && !runs[0].is_row;
  };
  if (!std::ranges::all_of(columns, is_whole))
    return std::make_shared<const StackedBatch>(std::move(columns));
  FlatElement leaves;
  for (std::vector<RowRun>& runs : columns) leaves.push_back(std::move(runs[0].values));
  return std::make_shared<const TensorBatch>(std::move(leaves));
}

std::optional<BatchHandle> TableWindowIterator::next() {
  std::vector<std::int64_t> window = windows_.next(*rows_);
  if (window.empty()) return std::nullopt;
  check_rows(*table_, window);
  return std::make_shared<const TableBatch>(table_, std::move(window));
}

void TableWindowIterator::transfer(PassState& state) {
  transfer_table(state, table_, *rows_);
  state(windows_);
}

std::optional<BatchHandle> StackWindowIterator::next() {
  std::vector<FlatElement> window = windows_.next(*input_);
  if (window.empty()) return std::nullopt;
  Columns rows;
  for (FlatElement& element : window) rows.add(std::move(element));
  return std::make_shared<const StackedBatch>(rows.take(), "Dataset::window");
}

std::optional<FlatElement> UnbatchIterator::next() {
  while (row_ == num_rows_) {
    const std::int64_t index = index_++;  // counts also if the element throws
    std::optional<FlatElement> element = input_->next();
    if (!element) return std::nullopt;
    const std::int64_t num_rows = call_for_element(
        "Dataset::unbatch", index, [&] { return lockstep::detail::num_rows(*element, "the element"); });
    batch_ = std::move(*element);
    row_ = 0;
    num_rows_ = num_rows;
  }
  FlatElement rows;
  rows.reserve(batch_.size());
  for (const Tensor& leaf : batch_) {
    Tensor& row = rows.emplace_back(Tensor::empty(leaf.shape().without(0), leaf.dtype(), input_device()));
    const auto size = static_cast<std::size_t>(row.nbytes());
    if (size > 0)
      std::memcpy(row.data(),
                  static_cast<const std::byte*>(leaf.data()) + size * static_cast<std::size_t>(row_), size);
  }
  ++row_;
  return rows;
}

void UnbatchIterator::transfer(PassState& state) {
  state(*input_, index_, row_, num_rows_);
  if (row_ < 0 || row_ > num_rows_) state.fail("there is no such row of an element");
  if (row_ == num_rows_) return;
  state(batch_);
  for (const Tensor& leaf : batch_)
    if (leaf.rank() == 0 || leaf.shape()[0] != num_rows_)
      state.fail("the components of an element have different numbers of rows");
}

std::optional<BatchHandle> ElementBatchIterator::next() {
  std::optional<FlatElement> element = input_->next();
  if (!element) return std::nullopt;
  return std::make_shared<const TensorBatch>(std::move(*element));
}

std::optional<FlatElement> GatherIterator::next() {
  const std::optional<BatchHandle> batch = input_->next();
  if (!batch) return std::nullopt;
  return gather(whole(*batch), input_device());
}

}  // namespace lockstep::detail
