#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/multi/limits.hpp"
#include "kernels/split.cuh"

/// Launches that work on many arrays at once. A table of the arrays is a parameter of the kernel; each block
/// works on a part of one item of it.
namespace lockstep::cuda {

/// Arrays of one length that are read and written together.
struct Item {
  std::int64_t count = 0;  ///< Elements of each array.
  Split split{};
  std::uint32_t end_block = 0;  ///< The block behind the item's last one.
  std::int16_t shift = 0;       ///< See split_shifted.
  bool aligned = true;          ///< Each element begins at a multiple of its size.

  __host__ __device__ std::int64_t num_singles(int per_vector) const {
    return count - split.num_vectors * per_vector;
  }
};

struct Table {
  int num_items = 0;
  int num_arrays = 0;  ///< Of each item.
  int per_block = 0;   ///< Vectors, or single elements, that a block goes through.
  Item items[kMostItems];
  void* pointers[kMostPointers];  ///< From item k's first vector on: num_arrays from k * num_arrays on.
};

/// What a block works on.
struct ArrayPart {
  const Item& item;
  void* const* arrays;
  std::int64_t begin, end;  ///< Of its vectors, and of its single elements.
};

__device__ __forceinline__ ArrayPart part_of_block(const Table& table) {
  int low = 0;
  for (int high = table.num_items - 1; low < high;) {
    const int middle = (low + high) / 2;
    if (blockIdx.x < table.items[middle].end_block)
      high = middle;
    else
      low = middle + 1;
  }
  const std::uint32_t first = low == 0 ? 0 : table.items[low - 1].end_block;
  const std::int64_t begin = std::int64_t{blockIdx.x - first} * table.per_block;
  return {table.items[low], table.pointers + low * table.num_arrays, begin, begin + table.per_block};
}

/// Calls `f(i, 1 as a constant)` for the part's elements that are in no vector of kCount.
template <int kCount, class F>
__device__ __forceinline__ void for_each_single(const ArrayPart& part, F f) {
  const auto& [head, num_vectors] = part.item.split;
  const std::int64_t end = min(part.end, part.item.num_singles(kCount));
  for (std::int64_t single = part.begin + threadIdx.x; single < end; single += kThreads) {
    const std::int64_t i = single - head;
    f(i < 0 ? i : i + num_vectors * kCount, std::integral_constant<int, 1>());
  }
}

/// Calls `f(i, kCount as a constant)` for each of the part's vectors, and for_each_single.
template <int kCount, class F>
__device__ __forceinline__ void for_each_vector(const ArrayPart& part, F f) {
  const std::int64_t end = min(part.end, part.item.split.num_vectors);
  for (std::int64_t v = part.begin + threadIdx.x; v < end; v += kThreads)
    f(v * kCount, std::integral_constant<int, kCount>());
  for_each_single<kCount>(part, f);
}

/// Fills tables, and passes each that is full, or the last, to `launch(table, number of blocks)`.
template <class Launch>
class Tables {
 public:
  /// @param per_thread  vectors that a thread of a block goes through.
  Tables(std::size_t num_arrays, Launch launch, int per_thread = 4) : launch_(launch) {
    assert(0 < num_arrays && num_arrays <= kMostPointers);
    table_.num_arrays = static_cast<int>(num_arrays);
    table_.per_block = per_thread * kThreads;
  }

  /// @param per_vector  elements of a vector. @param arrays  from the first vector on; null where an item has
  /// fewer than others.
  void add(Item item, int per_vector, std::span<const void* const> arrays) {
    if (table_.num_items == most_items()) flush();
    const std::int64_t longest = std::max(item.split.num_vectors, item.num_singles(per_vector));
    num_blocks_ += static_cast<std::uint32_t>((longest + table_.per_block - 1) / table_.per_block);
    item.end_block = num_blocks_;
    std::ranges::transform(arrays, table_.pointers + table_.num_items * table_.num_arrays,
                           [](const void* array) { return const_cast<void*>(array); });
    table_.items[table_.num_items++] = item;
  }
  void flush() {
    if (table_.num_items > 0) launch_(table_, num_blocks_);
    table_.num_items = 0;
    num_blocks_ = 0;
  }

 private:
  int most_items() const { return std::min(kMostItems, kMostPointers / table_.num_arrays); }

  Launch launch_;
  Table table_;
  std::uint32_t num_blocks_ = 0;
};

/// Adds an item of arrays of Ts, all of one type.
template <class T, class Launch>
void add_arrays(Tables<Launch>& tables, std::int64_t count, std::span<const void* const> arrays) {
  Item item{.count = count, .split = split_run<T>(count, arrays)};
  item.aligned =
      std::ranges::all_of(arrays, [](const void* array) { return are_multiples(sizeof(T), array); });
  std::array<const void*, kMostPointers> origins;
  const auto end = std::ranges::transform(arrays, origins.begin(), [&](const void* array) {
                     return item.split.origin<T>(array);
                   }).out;
  tables.add(item, kPer16Bytes<T>, std::span(origins.begin(), end));
}

}  // namespace lockstep::cuda
