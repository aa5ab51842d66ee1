#include "input/rows/batch.hpp"

#include <cstring>
#include <span>

#include "detail/concat.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::detail {
namespace {

LeafType type_of(const Tensor& tensor) { return {tensor.shape(), tensor.dtype()}; }

void copy_bytes(std::byte* destination, const void* source, std::int64_t num_bytes) {
  if (num_bytes > 0) std::memcpy(destination, source, static_cast<std::size_t>(num_bytes));
}

}  // namespace

std::string describe(const LeafType& type) { return concat(type.shape, " ", type.dtype); }

LeafType TableBatch::leaf(std::size_t index) const {
  return table_->leaf(index, static_cast<std::int64_t>(rows_.size()));
}

void TableBatch::copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const {
  table_->gather(leaf,
                 std::span(rows_).subspan(static_cast<std::size_t>(rows.begin),
                                          static_cast<std::size_t>(rows.end - rows.begin)),
                 destination);
}

StackedBatch::StackedBatch(std::vector<std::vector<Tensor>> columns, std::string_view what)
    : columns_(std::move(columns)) {
  for (std::vector<Tensor>& column : columns_) {
    check_stackable(column, what);
    for (Tensor& row : column) row = on_host(row);
  }
}

LeafType StackedBatch::leaf(std::size_t index) const {
  const std::vector<Tensor>& column = columns_[index];
  return {stacked_shape(column), column[0].dtype()};
}

void StackedBatch::copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const Tensor& row = columns_[leaf][static_cast<std::size_t>(i)];
    copy_bytes(destination, row.view().data, row.nbytes());
    destination += row.nbytes();
  }
}

TensorBatch::TensorBatch(FlatElement&& leaves) : leaves_(std::move(leaves)) {
  for (Tensor& leaf : leaves_) leaf = on_host(leaf);
  for (const Tensor& leaf : leaves_)
    is_own_.push_back(!leaf.is_shared() && !leaf.is_borrowed() && !leaf.is_read_only());
}

LeafType TensorBatch::leaf(std::size_t index) const { return type_of(leaves_[index]); }

void TensorBatch::copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const {
  const Tensor& tensor = leaves_[leaf];
  const Tensor source = tensor.rank() > 0 ? tensor.slice(rows.begin, rows.end) : tensor;
  copy_bytes(destination, source.view().data, source.nbytes());
}

std::optional<Tensor> TensorBatch::view(std::size_t leaf, RowRange rows, const Device& device) const {
  if (!is_own_[leaf]) return std::nullopt;
  const Tensor& tensor = leaves_[leaf];
  const Tensor part = tensor.rank() > 0 ? tensor.slice(rows.begin, rows.end) : tensor;
  if (device == tensor.device()) return part;
  TensorView elsewhere = part.view();
  elsewhere.device = device;
  return Tensor::adopt(std::shared_ptr<Buffer>(shared_from_this(), &no_memory_), std::move(elsewhere));
}

}  // namespace lockstep::detail
