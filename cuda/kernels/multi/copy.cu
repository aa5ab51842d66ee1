#include <algorithm>
#include <array>

#include "kernels/combine.hpp"
#include "kernels/multi/multi.hpp"
#include "kernels/multi/table.cuh"
#include "kernels/shifted.cuh"

namespace lockstep::cuda {
namespace {

constexpr int kVector = 16;

__device__ void store_to_all(const ArrayPart& part, int num_arrays, std::int64_t i, uint4 value) {
  for (int k = 1; k < num_arrays; ++k)
    if (auto* const destination = static_cast<std::byte*>(part.arrays[k]))
      *reinterpret_cast<uint4*>(destination + i) = value;
}

__device__ void copy_byte(const ArrayPart& part, int num_arrays, std::int64_t i) {
  const std::byte value = static_cast<const std::byte*>(part.arrays[0])[i];
  for (int k = 1; k < num_arrays; ++k)
    if (auto* const destination = static_cast<std::byte*>(part.arrays[k])) destination[i] = value;
}

/// The source's vectors begin `shift` bytes before the destinations': each thread loads the source's, and has
/// what is missing from the next thread.
__device__ void copy_shifted(const ArrayPart& part, int num_arrays) {
  constexpr int kWarp = 32;
  const int shift = part.item.shift;
  const auto* const vectors =
      reinterpret_cast<const uint4*>(static_cast<const std::byte*>(part.arrays[0]) - shift);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t end = min(part.end, part.item.split.num_vectors);
  for (std::int64_t v = part.begin + threadIdx.x; v - lane < end; v += kThreads) {
    uint4 low{};
    if (v <= end) low = vectors[v];
    uint4 high{__shfl_down_sync(~0u, low.x, 1), __shfl_down_sync(~0u, low.y, 1),
               __shfl_down_sync(~0u, low.z, 1), __shfl_down_sync(~0u, low.w, 1)};
    if (v >= end) continue;
    if (lane == kWarp - 1) high = vectors[v + 1];
    store_to_all(part, num_arrays, v * kVector, from_pair(low, high, shift));
  }
  for_each_single<kVector>(part, [&](std::int64_t i, auto) { copy_byte(part, num_arrays, i); });
}

/// An item's arrays are its source and its destinations.
__global__ void __launch_bounds__(kThreads) copy_all_kernel(__grid_constant__ const Table table) {
  const ArrayPart part = part_of_block(table);
  if (part.item.shift != 0) return copy_shifted(part, table.num_arrays);
  for_each_vector<kVector>(part, [&](std::int64_t i, auto constant) {
    if constexpr (decltype(constant)::value == 1)
      copy_byte(part, table.num_arrays, i);
    else
      store_to_all(part, table.num_arrays, i,
                   *reinterpret_cast<const uint4*>(static_cast<const std::byte*>(part.arrays[0]) + i));
  });
}

/// @param arrays  the source, then destinations, some of them null.
Item item_of(std::int64_t size_bytes, std::span<const void* const> arrays) {
  Item item{.count = size_bytes, .split = split_run<std::byte>(size_bytes, arrays)};
  if (item.split.num_vectors > 0) return item;
  // Where the destinations agree with each other, a vector's bytes lie in two of the source's.
  Split split = split_run<std::byte>(size_bytes, arrays.subspan(1));
  const auto source = reinterpret_cast<std::uintptr_t>(arrays.front());
  const auto shift = static_cast<std::int16_t>((source + static_cast<std::uintptr_t>(split.head)) % kVector);
  if (split.num_vectors == 0 || shift == 0) return item;
  if (split.head < shift) split.head += 2 * kVector;
  // All of the source's vectors are within it.
  split.num_vectors = std::max<std::int64_t>(0, (size_bytes - split.head + shift) / kVector - 1);
  if (split.num_vectors == 0) return item;
  item.split = split;
  item.shift = shift;
  return item;
}

}  // namespace

void copy_all(const Place& place, std::span<const Spread> spreads) {
  if (spreads.empty()) return;
  if (spreads.size() == 1 &&
      std::ranges::find(spreads.front().destinations, nullptr) == spreads.front().destinations.end())
    return copy_to_all(place, spreads.front().size_bytes, spreads.front().source,
                       spreads.front().destinations);
  std::size_t most = 0;
  for (const Spread& one : spreads) most = std::max(most, one.destinations.size());
  Tables tables(1 + most, [&](const Table& table, unsigned blocks) {
    launch(place, "Copying many arrays", blocks, kThreads, copy_all_kernel, table);
  });
  for (const auto& [size_bytes, source, destinations] : spreads) {
    if (size_bytes == 0 || destinations.empty()) continue;
    std::array<const void*, 1 + kMostRanks> arrays{source};
    std::ranges::copy(destinations, arrays.begin() + 1);
    const auto used = std::span(arrays).first(1 + most);
    const Item item = item_of(size_bytes, used);
    for (const void*& array : used) array = item.split.origin<std::byte>(array);
    tables.add(item, kVector, used);
  }
  tables.flush();
}

}  // namespace lockstep::cuda
