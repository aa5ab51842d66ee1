#include "input/batch_passes.hpp"

#include <lockstep/input/numpy.hpp>

namespace lockstep::detail {

std::optional<FlatElement> TablePass::next() {
  const std::optional<std::int64_t> row = rows_->next();
  if (!row) return std::nullopt;
  FlatElement element = table_->gather({&*row, 1});
  for (Tensor& leaf : element) leaf = leaf.reshape(leaf.shape().without(0));
  return element;
}

std::optional<FlatElement> TableBatchPass::next() {
  batch_.clear();
  while (batch_.size() < batch_size_) {
    const std::optional<std::int64_t> row = rows_->next();
    if (!row) break;
    batch_.push_back(*row);
  }
  if (batch_.empty() || (drop_ && batch_.size() < batch_size_)) return std::nullopt;
  return table_->gather(batch_);
}

std::optional<FlatElement> StackBatchPass::next() {
  std::vector<std::vector<Tensor>> columns;
  std::size_t num_elements = 0;
  for (; num_elements < batch_size_; ++num_elements) {
    std::optional<FlatElement> element = input_->next();
    if (!element) break;
    columns.resize(element->size());
    for (std::size_t leaf = 0; leaf < columns.size(); ++leaf)
      columns[leaf].push_back(std::move((*element)[leaf]));
  }
  if (num_elements == 0 || (drop_ && num_elements < batch_size_)) return std::nullopt;
  FlatElement batch;
  for (const std::vector<Tensor>& column : columns) batch.push_back(stack(column, "Dataset::batch"));
  return batch;
}

}  // namespace lockstep::detail
