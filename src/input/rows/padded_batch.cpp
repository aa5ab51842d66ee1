#include "input/rows/padded_batch.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::detail {
namespace {

/// The shape that a column's rows are padded to.
Shape padded_shape(const std::vector<Tensor>& column, std::size_t leaf, const PaddedExtents* extents,
                   std::string_view what) {
  const Tensor& first = column.front();
  for (const Tensor& row : column)
    LOCKSTEP_EXPECTS(row.rank() == first.rank() && row.dtype() == first.dtype(), InvalidArgument, what,
                     ": component ", leaf, " is ", row.shape(), ' ', row.dtype(), " beside ", first.shape(),
                     ' ', first.dtype(), ". Make all ranks and dtypes the same; lengths may differ.");
  const auto rank = static_cast<std::size_t>(first.rank());
  LOCKSTEP_EXPECTS(extents == nullptr || extents->size() == rank, InvalidArgument, what, ": component ", leaf,
                   " has rank ", rank, ", and its padded shape has rank ", extents ? extents->size() : 0,
                   ". Pass an extent, or nothing, for each axis.");
  std::vector<std::int64_t> padded(rank);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t longest = 0;
    for (const Tensor& row : column) longest = std::max(longest, row.shape()[static_cast<int>(axis)]);
    padded[axis] = extents && (*extents)[axis] ? *(*extents)[axis] : longest;
    LOCKSTEP_EXPECTS(longest <= padded[axis], InvalidArgument, what, ": a row of component ", leaf,
                     " has extent ", longest, " in axis ", axis, ", and is padded to ", padded[axis],
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

PaddedBatch::PaddedBatch(std::vector<std::vector<Tensor>> columns, const std::vector<PaddedExtents>& extents,
                         const std::vector<Scalar>& values, std::string_view what)
    : columns_(std::move(columns)) {
  LOCKSTEP_EXPECTS(extents.empty() || extents.size() == columns_.size(), InvalidArgument, what, ": ",
                   extents.size(), " padded shapes for elements of ", columns_.size(),
                   " components. Pass one for each, or none.");
  LOCKSTEP_EXPECTS(values.empty() || values.size() == columns_.size(), InvalidArgument, what, ": ",
                   values.size(), " padding values for elements of ", columns_.size(),
                   " components. Pass one for each, or none.");
  for (std::size_t leaf = 0; leaf < columns_.size(); ++leaf) {
    std::vector<Tensor>& column = columns_[leaf];
    shapes_.push_back(padded_shape(column, leaf, extents.empty() ? nullptr : &extents[leaf], what));
    padding_.push_back(
        padding_of(column.front().dtype(), leaf, values.empty() ? nullptr : &values[leaf], what));
    for (Tensor& row : column) row = on_host(row);
  }
}

LeafType PaddedBatch::leaf(std::size_t index) const {
  std::vector<std::int64_t> extents{static_cast<std::int64_t>(columns_[index].size())};
  extents.insert(extents.end(), shapes_[index].begin(), shapes_[index].end());
  return {Shape(extents), columns_[index].front().dtype()};
}

void PaddedBatch::copy_rows(std::size_t leaf, RowRange rows, std::byte* destination) const {
  const Tensor& padding = padding_[leaf];
  const auto* const value = static_cast<const std::byte*>(padding.view().data);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    const Tensor& row = columns_[leaf][static_cast<std::size_t>(i)];
    const auto* source = static_cast<const std::byte*>(row.view().data);
    destination =
        copy_padded(source, row.shape(), shapes_[leaf], 0, destination, value, size_of(row.dtype()));
  }
}

}  // namespace lockstep::detail
