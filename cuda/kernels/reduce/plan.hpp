#pragma once

#include <cstdint>

#include <lockstep/backend/kernel_backend.hpp>

namespace lockstep::cuda {

/// How [outer, axis, inner] is reduced. The plan, and with it the order in which elements are combined,
/// depends only on the extents and the sizes of an element and of an accumulator.
struct ReducePlan {
  enum class Kind : std::uint8_t {
    staged,   ///< [axis, inner] is small: a block stages some in shared memory; a group does one result.
    rows,     ///< inner is 1: a group of threads reads along a row.
    tiles,    ///< A block stages rows of a tile of columns in shared memory.
    columns,  ///< A thread reads down 16 bytes' width of columns; the group is a block.
  };
  Kind kind = Kind::rows;
  /// Threads that work together; staged and rows: a power of two; tiles: those below one another.
  int group = 1;
  int groups_per_block = 1;       ///< staged: the number of [axis, inner] that a block stages at once.
  int width = 1;                  ///< tiles: columns. columns: threads side by side, group / width below.
  std::int64_t splits = 1;        ///< Parts of the axis that are reduced separately at first.
  std::int64_t split_length = 0;  ///< Their length along the axis; the last may be shorter.
};

/// The most bytes of a tile's row.
inline constexpr int kTileBytes = 1 << 10;

/// @param may_split  false: the axis is one part.
ReducePlan plan_reduction(const backend::AxisExtents& extents, std::int64_t element_size,
                          std::int64_t accumulator_size, bool may_split);

}  // namespace lockstep::cuda
