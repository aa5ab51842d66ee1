#include "input/state/element_bytes.hpp"

#include <bit>
#include <vector>

#include "detail/concat.hpp"
#include "input/formats/byte_order.hpp"
#include "input/formats/file_shape.hpp"
#include "input/rows/host_rows.hpp"

namespace lockstep::detail {

static_assert(std::endian::native == std::endian::little, "elements would have to be swapped");

void append_element_head(std::string& bytes, const FlatElement& element) {
  append_number(bytes, static_cast<std::uint32_t>(element.size()));
  for (const Tensor& leaf : element) {
    append_number(bytes, static_cast<std::uint8_t>(leaf.dtype()));
    append_number(bytes, static_cast<std::uint8_t>(leaf.rank()));
    for (const std::int64_t extent : leaf.shape()) append_number(bytes, extent);
  }
}

FlatElement read_element(ByteSource& source, std::optional<std::size_t> num_leaves,
                         std::span<const TensorSpec> spec) {
  const auto fail = [&](std::string reason) { source.fail(source.position(), std::move(reason)); };
  const auto found = read_number<std::uint32_t>(source, "the number of tensors");
  if (num_leaves && found != *num_leaves)
    fail(concat("an element has ", found, " tensors, not ", *num_leaves));
  FlatElement element;
  std::uint64_t num_bytes = 0;
  for (std::uint32_t leaf = 0; leaf < found; ++leaf) {
    const auto dtype = read_number<std::uint8_t>(source, "a dtype");
    if (dtype >= kNumDTypes) fail(concat("there is no dtype ", int{dtype}));
    const auto rank = read_number<std::uint8_t>(source, "a rank");
    std::vector<std::int64_t> extents;
    for (int axis = 0; axis < rank; ++axis) {
      extents.push_back(read_number<std::int64_t>(source, "an extent"));
      if (extents.back() < 0) fail("an extent is negative");
    }
    const Shape shape = checked_shape(source, extents, static_cast<DType>(dtype));
    if (leaf < spec.size() && !spec[leaf].is_compatible_with(shape, static_cast<DType>(dtype)))
      fail(concat("tensor ", leaf, " of an element is ", shape, " ", static_cast<DType>(dtype),
                  ", where the dataset's are ", spec[leaf]));
    num_bytes += static_cast<std::uint64_t>(shape.size()) * size_of(static_cast<DType>(dtype));
    if (num_bytes > source.max_left())
      fail(concat("an element's tensors have ", num_bytes, " bytes, but ", source.whole(), " ends after ",
                  source.max_left()));
    element.push_back(Tensor::empty(shape, static_cast<DType>(dtype), input_device()));
  }
  for (Tensor& leaf : element) {
    if (leaf.size() == 0) continue;
    auto* const bytes = static_cast<std::byte*>(leaf.data());
    source.read(bytes, static_cast<std::uint64_t>(leaf.nbytes()), "a tensor");
    if (leaf.dtype() == DType::boolean) make_booleans(bytes, leaf.size());
  }
  return element;
}

}  // namespace lockstep::detail
