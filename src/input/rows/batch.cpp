#include "input/rows/batch.hpp"

#include <cstring>
#include <span>

#include "detail/concat.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/row_runs.hpp"

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

StackedBatch::StackedBatch(std::vector<std::vector<RowRun>> columns, std::string_view what)
    : columns_(std::move(columns)) {
  for (std::vector<RowRun>& column : columns_) {
    const LeafType first{row_shape(column[0], 0), column[0].values.dtype()};
    std::int64_t num_rows = 0;
    for (RowRun& run : column) {
      const std::int64_t size = lockstep::detail::num_rows(run);
      // Rows that come together without ends have one shape.
      for (std::int64_t row = 0; row < (run.ends.empty() ? 1 : size); ++row)
        if (run.values.dtype() != first.dtype || row_shape(run, row) != first.shape)
          check_stackable({row_of(column[0], 0), row_of(run, row)}, what);
      if (run.is_row) run.values = on_host(run.values);
      num_rows += size;
    }
    leaves_.push_back({stacked_shape(first.shape, num_rows), first.dtype});
  }
}

void StackedBatch::copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const {
  const LeafType& type = leaves_[leaf];
  const std::int64_t row_bytes =
      type.shape.size() / type.shape[0] * static_cast<std::int64_t>(size_of(type.dtype));
  for_each_part(columns_[leaf], rows.begin, rows.end,
                [&](std::int64_t begin, std::int64_t end, const RowRun& run) {
                  const auto* const from = static_cast<const std::byte*>(run.values.view().data);
                  copy_bytes(destination, from + begin * row_bytes, (end - begin) * row_bytes);
                  destination += (end - begin) * row_bytes;
                });
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
