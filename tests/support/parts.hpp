#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "input/iterators/batch_iterators.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/part.hpp"
#include "support/input.hpp"

/// Batches, and what replicas get of them, as plain values.
namespace lockstep::test {

inline std::unique_ptr<detail::Iterator<detail::BatchHandle>> batches_of(
    std::unique_ptr<detail::Iterator<detail::FlatElement>> elements) {
  return std::make_unique<detail::ElementBatchIterator>(std::move(elements));
}
inline std::unique_ptr<detail::Iterator<detail::BatchHandle>> batch_list(const std::vector<Tensor>& batches) {
  return batches_of(list_pass(batches));
}

/// For each leaf its rows in elements that came one by one.
inline std::vector<std::vector<detail::RowRun>> columns_of(const std::vector<std::vector<Tensor>>& rows) {
  std::vector<std::vector<detail::RowRun>> columns;
  for (const std::vector<Tensor>& column : rows) {
    columns.emplace_back();
    for (const Tensor& row : column) columns.back().push_back({row, {}, true});
  }
  return columns;
}

/// A batch of these leaves; an initializer list shares them.
inline detail::BatchHandle batch_of(detail::FlatElement leaves) {
  return std::make_shared<const detail::TensorBatch>(std::move(leaves));
}

inline detail::FlatElement on_host(const detail::Part& part) {
  return detail::gather(part, detail::input_device());
}

/// The first tensor of each part left in a pass.
inline std::vector<Values> all_parts(detail::Iterator<detail::Part>& pass) {
  std::vector<Values> parts;
  while (const auto part = pass.next()) parts.push_back(on_host(*part)[0].to_vector<std::int64_t>());
  return parts;
}

}  // namespace lockstep::test
