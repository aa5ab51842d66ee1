#include "input/row_tables.hpp"

#include <cstddef>
#include <cstring>

namespace lockstep::detail {

LeafType TensorRows::leaf(std::size_t index, std::int64_t num_rows) const {
  return {tensors_[index].shape().with(0, num_rows), tensors_[index].dtype()};
}

void TensorRows::gather(std::size_t leaf, std::span<const std::int64_t> rows, std::byte* destination) const {
  const Tensor& tensor = tensors_[leaf];
  if (rows.empty() || tensor.nbytes() == 0) return;
  const auto row_bytes = static_cast<std::size_t>(tensor.nbytes() / tensor.shape()[0]);
  const auto* source = static_cast<const std::byte*>(tensor.view().data);
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;  // rows in a row are one copy
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    std::memcpy(destination + i * row_bytes, source + static_cast<std::size_t>(rows[i]) * row_bytes,
                (end - i) * row_bytes);
    i = end;
  }
}

void RangeRows::gather(std::size_t, std::span<const std::int64_t> rows, std::byte* destination) const {
  for (const std::int64_t row : rows) {
    // Unsigned: a step may be longer than a signed number, its end is not.
    const std::uint64_t value = static_cast<std::uint64_t>(start_) +
                                static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(step_);
    std::memcpy(destination, &value, sizeof value);
    destination += sizeof value;
  }
}

}  // namespace lockstep::detail
