#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <limits>

#include "arithmetic/operators.hpp"
#include "arithmetic/scaled_sum.hpp"
#include "kernels/combine.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"

namespace lockstep::cuda {
namespace {

struct Pointers {
  int num_sources;
  int num_destinations;
  const void* sources[kMostRanks];
  void* destinations[kMostRanks];
};

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
  for (int k = 0; k < pointers.num_destinations; ++k)
    store<T, kCount>(pointers.destinations[k], i, vector, aligned);
}

/// @param num_vectors  of 16 bytes, at multiples of 16 bytes; the rest of `count` is combined element by
/// element.
template <class Op, class T>
__global__ void __launch_bounds__(kThreads)
    combine_kernel(__grid_constant__ const Pointers pointers, bool mean, std::int64_t count,
                   std::int64_t num_vectors, bool aligned) {
  constexpr int kCount = kPer16Bytes<T>;
  for (std::int64_t v = thread_index(); v < num_vectors; v += num_threads())
    combine_vector<Op, T, kCount>(pointers, mean, v * kCount, aligned);
  for (std::int64_t i = num_vectors * kCount + thread_index(); i < count; i += num_threads())
    combine_vector<Op, T, 1>(pointers, mean, i, aligned);
}

template <class V>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(__grid_constant__ const Pointers pointers, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const V value = static_cast<const V*>(pointers.sources[0])[i];
    for (int k = 0; k < pointers.num_destinations; ++k) static_cast<V*>(pointers.destinations[k])[i] = value;
  }
}

// A positive float's bits, as a signed integer, are ordered as the float; a negative one's the other way
// round. Only NaN becomes an extreme integer.
template <class F, class I>
__global__ void __launch_bounds__(kThreads)
    encode_kernel(bool nan_is_largest, std::int64_t count, const F* floats, I* integers) {
  constexpr I kLargest = std::numeric_limits<I>::max();
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const F value = floats[i];
    const I bits = std::bit_cast<I>(value);
    const I ordered = bits < 0 ? bits ^ kLargest : bits;
    integers[i] = value == value ? ordered : nan_is_largest ? kLargest : std::numeric_limits<I>::min();
  }
}

template <class F, class I>
__global__ void __launch_bounds__(kThreads) decode_kernel(std::int64_t count, I* values) {
  constexpr I kLargest = std::numeric_limits<I>::max();
  for (std::int64_t i = thread_index(); i < count; i += num_threads()) {
    const I ordered = values[i];
    const I bits = ordered < 0 ? ordered ^ kLargest : ordered;
    const bool is_nan = ordered == kLargest || ordered == std::numeric_limits<I>::min();
    values[i] = is_nan ? std::bit_cast<I>(std::numeric_limits<F>::quiet_NaN()) : bits;
  }
}

Pointers pointers_of(std::span<const void* const> sources, std::span<void* const> destinations) {
  assert(sources.size() <= kMostRanks && destinations.size() <= kMostRanks);
  Pointers pointers{static_cast<int>(sources.size()), static_cast<int>(destinations.size()), {}, {}};
  std::ranges::copy(sources, pointers.sources);
  std::ranges::copy(destinations, pointers.destinations);
  return pointers;
}

/// Whether all addresses are multiples of `alignment`.
bool are_aligned(const Pointers& pointers, std::size_t alignment) {
  std::uintptr_t bits = 0;
  for (const void* source : pointers.sources) bits |= reinterpret_cast<std::uintptr_t>(source);
  for (const void* destination : pointers.destinations) bits |= reinterpret_cast<std::uintptr_t>(destination);
  return bits % alignment == 0;
}

}  // namespace

void combine(const Place& place, ReduceOp op, DType dtype, std::int64_t count,
             std::span<const void* const> sources, std::span<void* const> destinations) {
  const Pointers pointers = pointers_of(sources, destinations);
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::same_as<T, bool>) {
      constexpr int kCount = kPer16Bytes<T>;
      const std::int64_t num_vectors = are_aligned(pointers, 16) ? count / kCount : 0;
      const unsigned blocks = blocks_for(num_vectors > 0 ? num_vectors : count);
      const auto run = [&]<class Op>(Op, bool mean) {
        launch(place, "Combining replicas' values", blocks, kThreads, combine_kernel<Op, T>, pointers, mean,
               count, num_vectors, are_aligned(pointers, sizeof(T)));
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
  if (size_bytes % 16 == 0 && are_aligned(pointers, 16)) {
    launch(place, kOperation, blocks_for(size_bytes / 16), kThreads, copy_kernel<uint4>, pointers,
           size_bytes / 16);
  } else {
    launch(place, kOperation, blocks_for(size_bytes), kThreads, copy_kernel<std::uint8_t>, pointers,
           size_bytes);
  }
}

void encode_ordered(const Place& place, ReduceOp op, DType dtype, std::int64_t count, const void* floats,
                    void* integers) {
  const auto run = [&]<class F, class I>(F, I) {
    launch(place, "Encoding floats as integers", blocks_for(count), kThreads, encode_kernel<F, I>,
           op == ReduceOp::max, count, static_cast<const F*>(floats), static_cast<I*>(integers));
  };
  return dtype == DType::f64 ? run(double(), std::int64_t()) : run(float(), std::int32_t());
}

void decode_ordered(const Place& place, DType dtype, std::int64_t count, void* values) {
  const auto run = [&]<class F, class I>(F, I) {
    launch(place, "Decoding floats from integers", blocks_for(count), kThreads, decode_kernel<F, I>, count,
           static_cast<I*>(values));
  };
  return dtype == DType::f64 ? run(double(), std::int64_t()) : run(float(), std::int32_t());
}

}  // namespace lockstep::cuda
