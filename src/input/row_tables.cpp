#include "input/row_tables.hpp"

#include <cstddef>
#include <cstring>

#include "input/host_rows.hpp"

namespace lockstep::detail {

FlatElement TensorRows::gather(std::span<const std::int64_t> rows) const {
  FlatElement batch;
  batch.reserve(tensors_.size());
  for (const Tensor& tensor : tensors_) {
    Tensor& leaf = batch.emplace_back(Tensor::empty(
        tensor.shape().with(0, static_cast<std::int64_t>(rows.size())), tensor.dtype(), input_device()));
    if (leaf.nbytes() == 0) continue;
    const auto row_bytes = static_cast<std::size_t>(tensor.nbytes() / tensor.shape()[0]);
    const auto* source = static_cast<const std::byte*>(tensor.view().data);
    auto* destination = static_cast<std::byte*>(leaf.data());
    for (std::size_t i = 0; i < rows.size();) {
      std::size_t end = i + 1;  // rows in a row are one copy
      while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
      std::memcpy(destination + i * row_bytes, source + static_cast<std::size_t>(rows[i]) * row_bytes,
                  (end - i) * row_bytes);
      i = end;
    }
  }
  return batch;
}

FlatElement RangeRows::gather(std::span<const std::int64_t> rows) const {
  Tensor batch = Tensor::empty(Shape(rows.size()), DType::i64, input_device());
  auto* values = static_cast<std::int64_t*>(batch.data());
  for (const std::int64_t row : rows)  // unsigned: a step may be longer than a signed number, its end is not
    *values++ =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(start_) +
                                  static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(step_));
  return {std::move(batch)};
}

}  // namespace lockstep::detail
