#include "kernels/reduce/plan.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace lockstep::cuda {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kWarp = 32;
/// The number of vectors that a thread loads at once.
constexpr std::int64_t kInFlight = 4;
/// Enough blocks to keep any GPU busy.
constexpr std::int64_t kManyBlocks = 1024;
/// The least work that is worth a block, and, as a thread adds vectors one after the other, the most that
/// keeps sums accurate.
constexpr std::int64_t kLeastBytes = 16 << 10;
constexpr std::int64_t kMostBytes = 1 << 20;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The number of threads of a warp for a row of `vectors`.
std::int64_t lanes_for(std::int64_t vectors) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::min(vectors, kWarp))));
}

/// Splits the axis so that there are enough blocks.
/// @param blocks      the number of blocks without splits.
/// @param row_bytes   the bytes of one step along the axis in a block.
/// @param multiple    a part's length is a multiple of it.
void split(ReducePlan& plan, std::int64_t axis, std::int64_t blocks, std::int64_t row_bytes,
           std::int64_t multiple) {
  const std::int64_t most = std::max<std::int64_t>(1, axis / divide_up(kLeastBytes, row_bytes));
  const std::int64_t least = divide_up(axis, std::max<std::int64_t>(1, kMostBytes / row_bytes));
  const std::int64_t splits = std::max(std::min(divide_up(kManyBlocks, blocks), most), least);
  if (splits == 1) return;
  plan.split_length = divide_up(divide_up(axis, splits), multiple) * multiple;
  plan.splits = divide_up(axis, plan.split_length);
}

}  // namespace

ReducePlan plan_reduction(const backend::AxisExtents& extents, std::int64_t element_size, bool may_split) {
  const auto [outer, axis, inner] = extents;
  const std::int64_t per_vector = 16 / element_size;
  ReducePlan plan{.split_length = axis};

  if (inner == 1) {
    const std::int64_t vectors = divide_up(axis, per_vector);
    const bool wants_block = vectors > 512 || (vectors > 128 && outer < kManyBlocks);
    // Where there are enough threads, fewer of them for each row take fewer instructions.
    const std::int64_t few = lanes_for(divide_up(vectors, kInFlight));
    const std::int64_t group = wants_block                             ? kThreads
                               : outer * few >= kManyBlocks * kThreads ? few
                                                                       : lanes_for(vectors);
    if (may_split) split(plan, axis, outer, element_size, kThreads * per_vector);
    plan.group = static_cast<int>(group);
    plan.groups_per_block = static_cast<int>(kThreads / group);
    return plan;
  }

  // The number of vectors after which a slab's columns lie in a vector as in the first.
  const std::int64_t period = inner / std::gcd(inner, per_vector);
  const bool is_narrow = inner * element_size < 128 && axis * inner >= period * per_vector;
  if (is_narrow && (axis > 16 || inner % per_vector != 0)) {
    const std::int64_t vectors = divide_up(axis * inner, per_vector);
    const std::int64_t periods = std::min(divide_up(vectors, kInFlight * period), kThreads / period);
    plan.kind = ReducePlan::Kind::slabs;
    plan.group = static_cast<int>(period * periods);
    plan.groups_per_block = static_cast<int>(kThreads / plan.group);
    if (may_split) split(plan, axis, outer, inner * element_size, per_vector);
    return plan;
  }

  constexpr std::int64_t kRowsPerThread = 8;
  const std::int64_t columns = outer * divide_up(inner, per_vector);
  // The second pass over few columns has few threads, and ends sooner when they share the axis.
  const std::int64_t most_below = columns < 4096 && !may_split ? 32 : 8;
  const std::int64_t below = std::clamp<std::int64_t>(axis / kRowsPerThread, 1, most_below);
  const std::int64_t width = std::min(columns, kThreads / below);
  plan.kind = ReducePlan::Kind::columns;
  plan.width = static_cast<int>(width);
  plan.group = static_cast<int>(width * std::clamp<std::int64_t>(axis / kRowsPerThread, 1, kThreads / width));
  if (may_split) split(plan, axis, divide_up(columns, width), width * 16, plan.group / width);
  return plan;
}

}  // namespace lockstep::cuda
