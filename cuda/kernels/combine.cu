#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "arithmetic/dispatch_operator.hpp"
#include "kernels/combine.cuh"
#include "kernels/combine.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/split.cuh"
#include "kernels/staged.cuh"

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

/// Combines elements [i, i + kCount) of all sources; `load(k)` has those of source k.
template <class Op, class T, int kCount, class Load>
__device__ Vector<T, kCount> combined(const Pointers& pointers, bool mean, std::int64_t i, bool aligned,
                                      int count, Load load) {
  using A = compute_t<T>;
  A acc[kCount];
  // Loads that are on their way together, before the first is used. Sixteen sums leave registers for fewer.
  constexpr int kAtOnce = kCount == 16 ? 2 : 4;
  using Packed = std::conditional_t<kCount == 1, Vector<T, 1>, uint4>;  // else each element takes a register
  const auto take = [&](int first, auto is_first) {
    Packed batch[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (first + k < pointers.num_sources) batch[k] = std::bit_cast<Packed>(load(first + k));
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (first + k >= pointers.num_sources) break;
      const auto vector = std::bit_cast<Vector<T, kCount>>(batch[k]);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const A value = widen(vector.elements[j]);
        acc[j] = is_first && k == 0 ? value : Op::apply(acc[j], value);
      }
    }
  };
  take(0, std::true_type());
#pragma unroll 1
  for (int first = kAtOnce; first < pointers.num_sources; first += kAtOnce) take(first, std::false_type());
  return results_of<Op, T>(acc, pointers.num_sources, mean, count, [&](int k, int j) {
    return widen(cuda::load<T, 1>(pointers.sources[k], i + j, aligned).elements[0]);
  });
}

/// Elements [i, i + kCount) of all sources into all destinations.
template <class Op, class T, int kCount>
__device__ void combine_vector(const Pointers& pointers, bool mean, std::int64_t i, bool aligned) {
  const auto vector = combined<Op, T, kCount>(pointers, mean, i, aligned, kCount, [&](int k) {
    if constexpr (kCount == 1)
      return load<T, 1>(pointers.sources[k], i, aligned);
    else
      return reinterpret_cast<const uint4*>(pointers.sources[k])[i / kCount];
  });
  if constexpr (kCount > 1)
    store_to_all(pointers, i * static_cast<std::int64_t>(sizeof(T)), std::bit_cast<uint4>(vector));
  else
    for (int k = 0; k < pointers.num_destinations; ++k)
      store<T, 1>(pointers.destinations[k], i, vector, aligned);
}

/// @param pointers  of arrays from the split's first vector on, as in the kernels below.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads, 4)
    combine_kernel(__grid_constant__ const Pointers pointers, bool mean, std::int64_t count, Split split,
                   bool aligned) {
  for_each_vector<kPer16Bytes<T>>(count, split, [&](std::int64_t i, auto constant) {
    combine_vector<Op, T, decltype(constant)::value>(pointers, mean, i, aligned);
  });
}

/// The same of arrays that no split fits: what a block combines goes through shared memory.
/// @param in_place  a destination is a source, so that other blocks write what lies beside a block's
/// elements.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads, 4)
    combine_staged_kernel(__grid_constant__ const Pointers pointers, bool mean, std::int64_t count,
                          bool aligned, bool in_place) {
  constexpr int kWhole = kPer16Bytes<T>, kBlock = kThreads * kWhole;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
  __shared__ uint4 staged[kThreads + 1];
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t first = std::int64_t{blockIdx.x} * kBlock; first < count;
       first += std::int64_t{gridDim.x} * kBlock) {
    const int elements = static_cast<int>(min(std::int64_t{kBlock}, count - first));
    const int own = min(kWhole, elements - thread * kWhole);  // elements of this thread
    const auto vector =
        combined<Op, T, kWhole>(pointers, mean, first + thread * kWhole, aligned, own, [&](int k) {
          const auto* const source = static_cast<const std::byte*>(pointers.sources[k]);
          const std::byte* const begin = source + first * kSize;
          const ByteRange range = in_place ? ByteRange{begin, begin + elements * kSize}
                                           : ByteRange{source, source + count * kSize};
          __syncthreads();  // all have read what was staged before
          stage_bytes<kThreads, 1>(range, begin, elements * static_cast<int>(kSize), staged);
          __syncthreads();
          const unsigned shift = reinterpret_cast<std::uintptr_t>(begin) % 16;
          return own > 0 ? load_staged(staged + thread, shift) : uint4();
        });
    __syncthreads();
    staged[thread] = std::bit_cast<uint4>(vector);
    __syncthreads();
    for (int k = 0; k < pointers.num_destinations; ++k)
      store_staged<kThreads>(static_cast<std::byte*>(pointers.destinations[k]) + first * kSize,
                             elements * static_cast<int>(kSize), staged, 0);
  }
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

/// The same where arrays do not agree: what a block copies goes through shared memory.
__global__ void __launch_bounds__(kThreads)
    copy_staged_kernel(__grid_constant__ const Pointers pointers, std::int64_t size_bytes) {
  __shared__ uint4 staged[kStagedVectors];
  const auto* const source = static_cast<const std::byte*>(pointers.sources[0]);
  // Blocks' parts begin at multiples of 16 bytes.
  const auto shift = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(source) % 16);
  for (std::int64_t part = blockIdx.x; part * kStagedBytes - shift < size_bytes; part += gridDim.x) {
    const std::int64_t first = max(std::int64_t{0}, part * kStagedBytes - shift);
    const auto size = static_cast<int>(min(size_bytes, (part + 1) * kStagedBytes - shift) - first);
    stage_bytes<kThreads>({source, source + size_bytes}, source + first, size, staged);
    __syncthreads();
    for (int k = 0; k < pointers.num_destinations; ++k)
      store_staged<kThreads>(static_cast<std::byte*>(pointers.destinations[k]) + first, size, staged,
                             part == 0 ? static_cast<int>(shift) : 0);
    __syncthreads();  // before the next part
  }
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

}  // namespace

void combine(const Place& place, ReduceOp op, DType dtype, std::int64_t count,
             std::span<const void* const> sources, std::span<void* const> destinations) {
  const Pointers pointers = pointers_of(sources, destinations);
  const Addresses addresses = addresses_of(pointers);
  constexpr const char* kCombining = "Combining replicas' values";
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) {
      const Split split = split_run<T>(count, addresses);
      const Pointers origins = origins_of<T>(pointers, split);
      const bool aligned = std::ranges::all_of(
          addresses, [](const void* address) { return are_multiples(sizeof(T), address); });
      const bool in_place = std::ranges::any_of(destinations, [&](const void* destination) {
        return std::ranges::find(sources, destination) != sources.end();
      });
      const bool mean = op == ReduceOp::mean;
      arithmetic::dispatch_operator(op, [&]<class Op>() {
        if (split.num_vectors == 0 && count > kThreads)
          return launch(place, kCombining, blocks_for((count + kPer16Bytes<T> - 1) / kPer16Bytes<T>),
                        kThreads, combine_staged_kernel<Op, T>, pointers, mean, count, aligned, in_place);
        launch(place, kCombining, split.blocks(count), kThreads, combine_kernel<Op, T>, origins, mean, count,
               split, aligned);
      });
    }
  });
}

void copy_to_all(const Place& place, std::int64_t size_bytes, const void* source,
                 std::span<void* const> destinations) {
  if (size_bytes == 0 || destinations.empty()) return;
  const Pointers pointers = pointers_of({&source, 1}, destinations);
  constexpr const char* kOperation = "Copying to all replicas";
  const Split split = split_run<std::byte>(size_bytes, addresses_of(pointers));
  if (split.num_vectors == 0 && size_bytes > kThreads)
    return launch(place, kOperation, blocks_for((size_bytes + 15) / kStagedBytes * kThreads + kThreads),
                  kThreads, copy_staged_kernel, pointers, size_bytes);
  launch(place, kOperation, split.blocks(size_bytes), kThreads, copy_kernel,
         origins_of<std::byte>(pointers, split), size_bytes, split);
}

}  // namespace lockstep::cuda
