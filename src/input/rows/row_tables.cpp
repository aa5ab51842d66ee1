#include "input/rows/row_tables.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace lockstep::detail {
namespace {

/// Prefetches the beginning of a row that is copied soon: hardware prefetchers work only within a row, and
/// need a while to start. Measured with rows of 3 KiB in random order, this is a third faster.
void prefetch(const std::byte* row, std::size_t size_bytes) {
  constexpr std::size_t kLineBytes = 64, kMostBytes = 16 * kLineBytes;
  for (std::size_t offset = 0; offset < std::min(size_bytes, kMostBytes); offset += kLineBytes)
    __builtin_prefetch(row + offset);
}

}  // namespace

LeafType TensorRows::leaf(std::size_t index, std::int64_t num_rows) const {
  return {tensors_[index].shape().with(0, num_rows), tensors_[index].dtype()};
}

void TensorRows::gather(std::size_t leaf, std::span<const std::int64_t> rows, std::byte* destination) const {
  const Tensor& tensor = tensors_[leaf];
  if (rows.empty() || tensor.nbytes() == 0) return;
  const auto row_bytes = static_cast<std::size_t>(tensor.nbytes() / tensor.shape()[0]);
  const auto* source = static_cast<const std::byte*>(tensor.view().data);
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;  // consecutive rows are one copy
    while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
    if (end < rows.size()) prefetch(source + static_cast<std::size_t>(rows[end]) * row_bytes, row_bytes);
    std::memcpy(destination + i * row_bytes, source + static_cast<std::size_t>(rows[i]) * row_bytes,
                (end - i) * row_bytes);
    i = end;
  }
}

void RangeRows::gather(std::size_t, std::span<const std::int64_t> rows, std::byte* destination) const {
  for (const std::int64_t row : rows) {
    // The arithmetic is unsigned: a step may exceed the signed range, though its end does not.
    const std::uint64_t value = static_cast<std::uint64_t>(start_) +
                                static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(step_);
    std::memcpy(destination, &value, sizeof value);
    destination += sizeof value;
  }
}

}  // namespace lockstep::detail
