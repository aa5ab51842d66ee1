#pragma once

#include <cstdint>

#include <lockstep/backend/kernel_backend.hpp>

namespace lockstep::cuda {

/// How [outer, axis, inner] is reduced. The plan, and with it the order in which elements are combined,
/// depends only on the extents and the size of an element.
struct ReducePlan {
  enum class Kind : std::uint8_t {
    rows,     ///< inner is 1: a group of threads reads along a row.
    columns,  ///< A thread reads down 16 bytes' width of columns; the group is a block.
    slabs,    ///< inner is narrow: a group reads [axis, inner] from end to end, each thread the same columns.
  };
  Kind kind = Kind::rows;
  int group = 1;  ///< Threads that work together; rows: a power of two.
  int groups_per_block = 1;
  int width = 1;                  ///< columns: threads side by side, group / width below one another.
  std::int64_t splits = 1;        ///< Parts of the axis that are reduced separately at first.
  std::int64_t split_length = 0;  ///< Their length along the axis; the last may be shorter.
};

/// @param may_split  false: the axis is one part.
ReducePlan plan_reduction(const backend::AxisExtents& extents, std::int64_t element_size, bool may_split);

}  // namespace lockstep::cuda
