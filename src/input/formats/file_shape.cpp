#include "input/formats/file_shape.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"

namespace lockstep::detail {

Shape checked_shape(const ByteSource& source, std::span<const std::int64_t> extents, DType dtype) {
  if (extents.size() > Shape::kMaxRank)
    source.fail(source.position(),
                concat("rank ", extents.size(), " exceeds the largest, ", int{Shape::kMaxRank}));
  const std::uint64_t most = source.max_left() / size_of(dtype);
  std::uint64_t num_elements = std::find(extents.begin(), extents.end(), 0) == extents.end() ? 1 : 0;
  for (const std::int64_t extent : extents)
    if (__builtin_mul_overflow(num_elements, static_cast<std::uint64_t>(extent), &num_elements))
      num_elements = most + 1;
  if (num_elements > most)
    source.fail(source.position(), concat("the array has more elements than the ", most, " that ",
                                          source.whole(), " has bytes for"));
  try {
    if (!extents.empty()) Shape(extents.subspan(1));  // checks the shape of a row, even if there are none
    return Shape(extents);
  } catch (const InvalidArgument& error) {
    std::string reason = error.what();
    if (reason.ends_with('.')) reason.pop_back();
    source.fail(source.position(), std::move(reason));
  }
}

}  // namespace lockstep::detail
