#include "kernels/reduce/plan.hpp"

#include <algorithm>
#include <bit>

#include "kernels/launch.hpp"

namespace lockstep::cuda {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kWarp = 32;
/// Enough blocks to keep any GPU busy.
constexpr std::int64_t kManyBlocks = 1024;
/// The most bytes of [axis, inner] that are staged.
constexpr std::int64_t kSmall = 2 << 10;
/// The longest axis that is combined in its order: what the ranks of a communicator bring is one.
constexpr std::int64_t kMostInOrder = 32;
/// Rows of fewer bytes are no columns for threads side by side.
constexpr std::int64_t kNarrow = 128;
/// The least work that is worth a block, and, as a thread adds vectors one after the other, the most that
/// keeps sums accurate.
constexpr std::int64_t kLeastBytes = 16 << 10;
constexpr std::int64_t kMostBytes = 1 << 20;
/// Parts' results are written and read again: an axis has this many times their bytes.
constexpr std::int64_t kLeastPerResult = 64;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

std::int64_t power_of_two_below(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)));
}

/// Splits the axis so that there are enough blocks.
/// @param blocks      the number of blocks without splits.
/// @param row_bytes   the bytes of one step along the axis in a block.
/// @param multiple    a part's length is a multiple of it.
/// @param worthwhile  the most parts whose results are little beside the axis.
void split(ReducePlan& plan, std::int64_t axis, std::int64_t blocks, std::int64_t row_bytes,
           std::int64_t multiple, std::int64_t worthwhile) {
  const std::int64_t most = std::min(axis / divide_up(kLeastBytes, row_bytes), worthwhile);
  const std::int64_t least = divide_up(axis, std::max<std::int64_t>(1, kMostBytes / row_bytes));
  const std::int64_t splits =
      std::max({std::min(divide_up(kManyBlocks, blocks), most), least, std::int64_t{1}});
  if (splits == 1) return;
  plan.split_length = divide_up(divide_up(axis, splits), multiple) * multiple;
  plan.splits = divide_up(axis, plan.split_length);
}

}  // namespace

ReducePlan plan_reduction(const backend::AxisExtents& extents, std::int64_t element_size,
                          std::int64_t accumulator_size, bool may_split) {
  const auto [outer, axis, inner] = extents;
  const std::int64_t per_vector = 16 / element_size;
  const std::int64_t worthwhile = axis * element_size / (kLeastPerResult * accumulator_size);
  ReducePlan plan{.split_length = axis};

  if (const std::int64_t bytes = axis * inner * element_size; bytes <= kSmall) {
    constexpr std::int64_t kPerLane = 8;
    const bool in_order = inner > 1 && axis <= kMostInOrder;
    const std::int64_t lanes = in_order ? 1 : std::clamp<std::int64_t>(axis / kPerLane, 1, kWarp);
    const std::int64_t group = power_of_two_below(lanes);
    // As many as give all threads work, and more where there are enough blocks.
    const std::int64_t most = kStagedBytes / bytes;
    const std::int64_t least = std::min(most, divide_up(kThreads, group * inner));
    plan.kind = ReducePlan::Kind::staged;
    plan.group = static_cast<int>(group);
    plan.groups_per_block =
        static_cast<int>(std::clamp(power_of_two_below(outer / kManyBlocks + 1), least, most));
    return plan;
  }

  if (inner == 1) {
    const std::int64_t vectors = divide_up(axis, per_vector);
    const bool wants_block = vectors > 512 || (vectors > 128 && outer < kManyBlocks);
    const std::int64_t group = wants_block ? kThreads : kWarp;
    if (may_split) split(plan, axis, outer, element_size, kThreads * per_vector, worthwhile);
    plan.group = static_cast<int>(group);
    plan.groups_per_block = static_cast<int>(kThreads / group);
    return plan;
  }

  if (inner * element_size < kNarrow || inner % per_vector != 0) {
    const std::int64_t tiles = divide_up(inner * element_size, kTileBytes);
    const std::int64_t width = divide_up(inner, tiles);
    plan.kind = ReducePlan::Kind::tiles;
    plan.width = static_cast<int>(width);
    plan.group = axis <= kMostInOrder ? 1 : static_cast<int>(std::max<std::int64_t>(1, kThreads / width));
    if (may_split) split(plan, axis, outer * tiles, width * element_size, plan.group, worthwhile);
    return plan;
  }

  // Threads below one another share the axis: more of them where there are few columns, down to 128 bytes
  // side by side.
  const std::int64_t columns = outer * (inner / per_vector);
  const bool in_order = axis <= kMostInOrder;
  std::int64_t below = in_order ? 1 : power_of_two_below(std::clamp<std::int64_t>(axis / 8, 1, 8));
  while (!in_order && below < 32 && axis >= 4 * below && divide_up(columns, kThreads / below) < kManyBlocks)
    below *= 2;
  const std::int64_t width = std::min(columns, kThreads / below);
  plan.kind = ReducePlan::Kind::columns;
  plan.width = static_cast<int>(width);
  plan.group =
      static_cast<int>(width * (in_order ? 1 : std::clamp<std::int64_t>(axis / 8, below, kThreads / width)));
  if (may_split) split(plan, axis, divide_up(columns, width), width * 16, plan.group / width, worthwhile);
  return plan;
}

}  // namespace lockstep::cuda
