#include "input/iterators/batch_iterators.hpp"

#include <cstring>
#include <vector>

#include <lockstep/values/nest.hpp>

#include "input/pipeline/element_error.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/part.hpp"

namespace lockstep::detail {

std::optional<FlatElement> TableIterator::next() {
  const std::optional<std::int64_t> row = rows_->next();
  if (!row) return std::nullopt;
  FlatElement element;
  element.reserve(table_->num_leaves());
  for (std::size_t leaf = 0; leaf < table_->num_leaves(); ++leaf) {
    const LeafType type = table_->leaf(leaf, 1);
    Tensor& tensor = element.emplace_back(Tensor::empty(type.shape.without(0), type.dtype, input_device()));
    table_->gather(leaf, {&*row, 1}, static_cast<std::byte*>(tensor.data()));
  }
  return element;
}

std::optional<BatchHandle> TableBatchIterator::next() {
  std::vector<std::int64_t> batch;  // not reserved: batch_size may exceed memory
  while (batch.size() < batch_size_) {
    const std::optional<std::int64_t> row = rows_->next();
    if (!row) break;
    batch.push_back(*row);
  }
  if (batch.empty() || (drop_ && batch.size() < batch_size_)) return std::nullopt;
  return std::make_shared<const TableBatch>(table_, std::move(batch));
}

std::optional<BatchHandle> StackBatchIterator::next() {
  // If the input throws, the gathered elements stay for the next call.
  for (; num_elements_ < batch_size_; ++num_elements_) {
    std::optional<FlatElement> element = input_->next();
    if (!element) break;
    columns_.resize(element->size());
    for (std::size_t leaf = 0; leaf < columns_.size(); ++leaf)
      columns_[leaf].push_back(std::move((*element)[leaf]));
  }
  const std::size_t num_elements = std::exchange(num_elements_, 0);
  auto columns = std::exchange(columns_, {});
  if (num_elements == 0 || (drop_ && num_elements < batch_size_)) return std::nullopt;
  return std::make_shared<const StackedBatch>(std::move(columns));
}

std::optional<BatchHandle> TableWindowIterator::next() {
  std::vector<std::int64_t> window = windows_.next(*rows_);
  if (window.empty()) return std::nullopt;
  return std::make_shared<const TableBatch>(table_, std::move(window));
}

std::optional<BatchHandle> StackWindowIterator::next() {
  const std::vector<FlatElement> window = windows_.next(*input_);
  if (window.empty()) return std::nullopt;
  std::vector<std::vector<Tensor>> columns(window.front().size());
  for (const FlatElement& element : window)
    for (std::size_t leaf = 0; leaf < columns.size(); ++leaf) columns[leaf].push_back(element[leaf]);
  return std::make_shared<const StackedBatch>(std::move(columns), "Dataset::window");
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
