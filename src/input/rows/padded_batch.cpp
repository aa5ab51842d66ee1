#include "input/rows/padded_batch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/rows/host_rows.hpp"
#include "input/rows/row_runs.hpp"

namespace lockstep::detail {
namespace {

/// The shape that a column's rows are padded to.
Shape padded_shape(const std::vector<RowRun>& column, std::size_t leaf, const PaddedExtents* extents,
                   std::string_view what) {
  const Shape first = row_shape(column.front(), 0);
  const DType dtype = column.front().values.dtype();
  const auto rank = static_cast<std::size_t>(first.rank());
  std::vector<std::int64_t> longest(rank);
  for (const RowRun& run : column) {
    Shape row = row_shape(run, 0);
    LOCKSTEP_EXPECTS(row.rank() == first.rank() && run.values.dtype() == dtype, InvalidArgument, what,
                     ": component ", leaf, " is ", row, ' ', run.values.dtype(), " beside ", first, ' ',
                     dtype, ". Make all ranks and dtypes the same; lengths may differ.");
    std::int64_t end = 0;
    for (const std::int64_t next : run.ends)
      longest[0] = std::max(longest[0], next - std::exchange(end, next));
    for (std::size_t axis = 0; axis < rank; ++axis)
      longest[axis] = std::max(longest[axis], row[static_cast<int>(axis)]);
  }
  LOCKSTEP_EXPECTS(extents == nullptr || extents->size() == rank, InvalidArgument, what, ": component ", leaf,
                   " has rank ", rank, ", and its padded shape has rank ", extents ? extents->size() : 0,
                   ". Pass an extent, or nothing, for each axis.");
  std::vector<std::int64_t> padded(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    padded[axis] = extents && (*extents)[axis] ? *(*extents)[axis] : longest[axis];
    LOCKSTEP_EXPECTS(longest[axis] <= padded[axis], InvalidArgument, what, ": a row of component ", leaf,
                     " has extent ", longest[axis], " in axis ", axis, ", and is padded to ", padded[axis],
                     ". Pad to more, or make the element shorter before.");
  }
  return Shape(padded);
}

Tensor padding_of(DType dtype, std::size_t leaf, const Scalar* value, std::string_view what) {
  Tensor padding = Tensor::zeros(Shape{}, dtype, input_device());
  if (value == nullptr) return padding;
  LOCKSTEP_EXPECTS(value->fits(dtype), InvalidArgument, what, ": component ", leaf, " is ", dtype,
                   ", which does not hold the padding value ", *value, ". Pass one that it holds.");
  padding.fill_(*value);
  return padding;
}

/// Fills `count` elements of `size` bytes with the one at `value`.
void fill(std::byte* begin, std::int64_t count, const std::byte* value, std::size_t size) {
  if (size == 1 && count > 0)
    std::memset(begin, std::to_integer<int>(*value), static_cast<std::size_t>(count));
  if (size == 1) return;
  for (std::int64_t i = 0; i < count; ++i)
    std::memcpy(begin + static_cast<std::size_t>(i) * size, value, size);
}

/// Copies a tensor into the first corner of one of another shape, whose extents are no smaller.
std::byte* copy_padded(const std::byte*& source, const Shape& from, const Shape& to, int axis,
                       std::byte* destination, const std::byte* padding, std::size_t size) {
  std::int64_t stride = 1;  // elements of the destination for one index of the axis
  for (int later = axis + 1; later < to.rank(); ++later) stride *= to[later];
  if (axis == to.rank()) {
    std::memcpy(destination, source, size);
    source += size;
    return destination + size;
  }
  std::byte* const end = destination + static_cast<std::size_t>(to[axis] * stride) * size;
  if (axis == to.rank() - 1) {
    const std::size_t bytes = static_cast<std::size_t>(from[axis]) * size;
    if (bytes > 0) std::memcpy(destination, source, bytes);
    source += bytes;
    destination += bytes;
  } else {
    for (std::int64_t i = 0; i < from[axis]; ++i)
      destination = copy_padded(source, from, to, axis + 1, destination, padding, size);
  }
  fill(destination, (end - destination) / static_cast<std::ptrdiff_t>(size), padding, size);
  return end;
}

}  // namespace

PaddedBatch::PaddedBatch(std::vector<std::vector<RowRun>> columns, const std::vector<PaddedExtents>& extents,
                         const std::vector<Scalar>& values, std::string_view what)
    : columns_(std::move(columns)) {
  LOCKSTEP_EXPECTS(extents.empty() || extents.size() == columns_.size(), InvalidArgument, what, ": ",
                   extents.size(), " padded shapes for elements of ", columns_.size(),
                   " components. Pass one for each, or none.");
  LOCKSTEP_EXPECTS(values.empty() || values.size() == columns_.size(), InvalidArgument, what, ": ",
                   values.size(), " padding values for elements of ", columns_.size(),
                   " components. Pass one for each, or none.");
  for (std::size_t leaf = 0; leaf < columns_.size(); ++leaf) {
    std::vector<RowRun>& column = columns_[leaf];
    const DType dtype = column.front().values.dtype();
    shapes_.push_back(padded_shape(column, leaf, extents.empty() ? nullptr : &extents[leaf], what));
    padding_.push_back(padding_of(dtype, leaf, values.empty() ? nullptr : &values[leaf], what));
    std::int64_t num_rows = 0;
    for (RowRun& run : column) {
      if (run.is_row) run.values = on_host(run.values);
      num_rows += lockstep::detail::num_rows(run);
    }
    leaves_.push_back({stacked_shape(shapes_.back(), num_rows), dtype});
  }
}

void PaddedBatch::copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const {
  const Tensor& padding = padding_[leaf];
  const auto* const value = static_cast<const std::byte*>(padding.view().data);
  const std::size_t size = size_of(padding.dtype());
  for_each_part(
      columns_[leaf], rows.begin, rows.end, [&](std::int64_t begin, std::int64_t end, const RowRun& run) {
        const auto* source = static_cast<const std::byte*>(run.values.view().data);
        source += static_cast<std::size_t>(begin_of(run, begin)) * size;
        for (std::int64_t row = begin; row < end; ++row)
          destination = copy_padded(source, row_shape(run, row), shapes_[leaf], 0, destination, value, size);
      });
}

}  // namespace lockstep::detail
