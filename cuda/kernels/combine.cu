#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "arithmetic/operators.hpp"
#include "arithmetic/scaled_sum.hpp"
#include "kernels/combine.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/shifted.cuh"
#include "kernels/split.cuh"

namespace lockstep::cuda {
namespace {

struct Pointers {
  int num_sources;
  int num_destinations;
  const void* sources[kMostRanks];
  void* destinations[kMostRanks];
};

/// Writes 16 bytes to byte `i` of all destinations. @pre that is a multiple of 16 bytes.
__device__ void store_to_all(const Pointers& pointers, std::int64_t i, uint4 value) {
  for (int k = 0; k < pointers.num_destinations; ++k)
    *reinterpret_cast<uint4*>(static_cast<std::byte*>(pointers.destinations[k]) + i) = value;
}

/// The mean of one element whose sum is not finite.
template <class T>
__device__ compute_t<T> mean_of_large(const Pointers& pointers, std::int64_t i, bool aligned) {
  using A = compute_t<T>;
  const A divisor = static_cast<A>(pointers.num_sources);
  arithmetic::ScaledSum<A> scaled(arithmetic::sum_scale(divisor));
#pragma unroll 1
  for (int k = 0; k < pointers.num_sources; ++k)
    scaled.add(widen(load<T, 1>(pointers.sources[k], i, aligned).elements[0]));
  return scaled.over(divisor);
}

/// Elements [i, i + kCount) of all sources into all destinations.
template <class Op, class T, int kCount>
__device__ void combine_vector(const Pointers& pointers, bool mean, std::int64_t i, bool aligned) {
  using A = compute_t<T>;
  A acc[kCount];
  Vector<T, kCount> vector = load<T, kCount>(pointers.sources[0], i, aligned);
#pragma unroll
  for (int j = 0; j < kCount; ++j) acc[j] = widen(vector.elements[j]);
  // Loads that are on their way together. Sixteen sums leave registers for fewer.
  constexpr int kAtOnce = kCount == 16 ? 2 : 4;
#pragma unroll kAtOnce
  for (int k = 1; k < pointers.num_sources; ++k) {
    vector = load<T, kCount>(pointers.sources[k], i, aligned);
#pragma unroll
    for (int j = 0; j < kCount; ++j) acc[j] = Op::apply(acc[j], widen(vector.elements[j]));
  }
  if constexpr (std::same_as<Op, arithmetic::Sum> && !std::integral<T>) {
    if (mean) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        acc[j] /= static_cast<A>(pointers.num_sources);
        if (!arithmetic::is_finite(acc[j])) acc[j] = mean_of_large<T>(pointers, i + j, aligned);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) vector.elements[j] = narrow<T>(acc[j]);
  if constexpr (kCount > 1)
    store_to_all(pointers, i * static_cast<std::int64_t>(sizeof(T)), std::bit_cast<uint4>(vector));
  else
    for (int k = 0; k < pointers.num_destinations; ++k)
      store<T, 1>(pointers.destinations[k], i, vector, aligned);
}

/// @param pointers  of arrays from the split's first vector on, as in the kernels below.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(__grid_constant__ const Pointers pointers, bool mean, std::int64_t count, Split split,
                   bool aligned) {
  for_each_vector<kPer16Bytes<T>>(count, split, [&](std::int64_t i, auto constant) {
    combine_vector<Op, T, decltype(constant)::value>(pointers, mean, i, aligned);
  });
}

/// Bytes that are no vector's.
__device__ void copy_byte(const Pointers& pointers, std::int64_t i) {
  const std::byte value = static_cast<const std::byte*>(pointers.sources[0])[i];
  for (int k = 0; k < pointers.num_destinations; ++k)
    static_cast<std::byte*>(pointers.destinations[k])[i] = value;
}

__global__ void __launch_bounds__(kThreads)
    copy_kernel(__grid_constant__ const Pointers pointers, std::int64_t size_bytes, Split split) {
  for_each_vector<16>(size_bytes, split, [&](std::int64_t i, auto constant) {
    if constexpr (decltype(constant)::value == 1)
      copy_byte(pointers, i);
    else
      store_to_all(pointers, i,
                   *reinterpret_cast<const uint4*>(static_cast<const std::byte*>(pointers.sources[0]) + i));
  });
}

/// The same as copy_kernel where the source's vectors begin `shift` bytes before the destinations': each
/// thread loads the source's, and has what is missing from the next thread.
__global__ void __launch_bounds__(kThreads)
    copy_shifted_kernel(__grid_constant__ const Pointers pointers, std::int64_t size_bytes, Split split,
                        int shift) {
  constexpr int kWarp = 32;
  const auto* const vectors =
      reinterpret_cast<const uint4*>(static_cast<const std::byte*>(pointers.sources[0]) - shift);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t v = thread_index(); v - lane < split.num_vectors; v += num_threads()) {
    uint4 low{};
    if (v <= split.num_vectors) low = vectors[v];
    uint4 high{__shfl_down_sync(~0u, low.x, 1), __shfl_down_sync(~0u, low.y, 1),
               __shfl_down_sync(~0u, low.z, 1), __shfl_down_sync(~0u, low.w, 1)};
    if (v >= split.num_vectors) continue;
    if (lane == kWarp - 1) high = vectors[v + 1];
    store_to_all(pointers, v * 16, from_pair(low, high, shift));
  }
  for_each_single<16>(size_bytes, split, [&](std::int64_t i, auto) { copy_byte(pointers, i); });
}

Pointers pointers_of(std::span<const void* const> sources, std::span<void* const> destinations) {
  assert(sources.size() <= kMostRanks && destinations.size() <= kMostRanks);
  Pointers pointers{static_cast<int>(sources.size()), static_cast<int>(destinations.size()), {}, {}};
  std::ranges::copy(sources, pointers.sources);
  std::ranges::copy(destinations, pointers.destinations);
  return pointers;
}

using Addresses = std::array<const void*, 2 * kMostRanks>;

/// Null where there are fewer.
Addresses addresses_of(const Pointers& pointers) {
  Addresses addresses;
  std::ranges::copy(pointers.destinations, std::ranges::copy(pointers.sources, addresses.begin()).out);
  return addresses;
}

/// What kernels take: the arrays from the split's first vector on.
template <class T>
Pointers origins_of(Pointers pointers, const Split& split) {
  for (const void*& source : pointers.sources) source = split.origin<T>(source);
  for (void*& destination : pointers.destinations) destination = split.origin<T>(destination);
  return pointers;
}

struct ShiftedSplit {
  Split split;
  int shift;  ///< From a multiple of 16 bytes of the source to the split's first vector.
};

/// Of destinations that agree with each other, and not with the source. A vector's bytes lie in two of the
/// source's, which are all within it.
ShiftedSplit split_shifted(const Pointers& pointers, std::int64_t size_bytes) {
  const std::span<const void* const> destinations(pointers.destinations,
                                                  static_cast<std::size_t>(pointers.num_destinations));
  Split split = split_run<std::byte>(size_bytes, destinations);
  const auto source = reinterpret_cast<std::uintptr_t>(pointers.sources[0]);
  const auto shift = static_cast<int>((source + static_cast<std::uintptr_t>(split.head)) % 16);
  if (split.num_vectors == 0 || shift == 0) return {};
  if (split.head < shift) split.head += 32;
  split.num_vectors = std::max<std::int64_t>(0, (size_bytes - split.head + shift) / 16 - 1);
  return {split, shift};
}

}  // namespace

void combine(const Place& place, ReduceOp op, DType dtype, std::int64_t count,
             std::span<const void* const> sources, std::span<void* const> destinations) {
  const Pointers pointers = pointers_of(sources, destinations);
  const Addresses addresses = addresses_of(pointers);
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) {
      const Split split = split_run<T>(count, addresses);
      const Pointers origins = origins_of<T>(pointers, split);
      const bool aligned = std::ranges::all_of(
          addresses, [](const void* address) { return are_multiples(sizeof(T), address); });
      const auto run = [&]<class Op>(Op, bool mean) {
        launch(place, "Combining replicas' values", split.blocks(count), kThreads, combine_kernel<Op, T>,
               origins, mean, count, split, aligned);
      };
      switch (op) {
        case ReduceOp::sum: return run(arithmetic::Sum(), false);
        case ReduceOp::mean: return run(arithmetic::Sum(), true);
        case ReduceOp::min: return run(arithmetic::Min(), false);
        case ReduceOp::max: return run(arithmetic::Max(), false);
        case ReduceOp::product: return run(arithmetic::Product(), false);
      }
    }
  });
}

void copy_to_all(const Place& place, std::int64_t size_bytes, const void* source,
                 std::span<void* const> destinations) {
  if (size_bytes == 0 || destinations.empty()) return;
  const Pointers pointers = pointers_of({&source, 1}, destinations);
  constexpr const char* kOperation = "Copying to all replicas";
  const Split split = split_run<std::byte>(size_bytes, addresses_of(pointers));
  if (split.num_vectors == 0)
    if (const auto [shifted, shift] = split_shifted(pointers, size_bytes); shifted.num_vectors > 0)
      return launch(place, kOperation, shifted.blocks(size_bytes), kThreads, copy_shifted_kernel,
                    origins_of<std::byte>(pointers, shifted), size_bytes, shifted, shift);
  launch(place, kOperation, split.blocks(size_bytes), kThreads, copy_kernel,
         origins_of<std::byte>(pointers, split), size_bytes, split);
}

}  // namespace lockstep::cuda
