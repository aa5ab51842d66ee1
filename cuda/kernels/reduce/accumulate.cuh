#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/element.cuh"

namespace lockstep::cuda {

/// The array that is reduced.
struct ReduceInput {
  const std::byte* begin;
  const std::byte* end;
  bool aligned;  ///< Every whole vector lies at a multiple of 16 bytes.
};

// ---- Reading ----

/// Loads `size` bytes, 1 to 16, one by one, for the ends of an array.
inline __device__ __noinline__ uint4 load_bytes(const std::byte* address, int size) {
  std::uint32_t words[4] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i)
    if (i < size) words[i / 4] |= static_cast<std::uint32_t>(address[i]) << (8 * (i % 4));
  return {words[0], words[1], words[2], words[3]};
}

/// Bytes [shift, shift + 16) of the 32 in low and high. @pre shift < 16
inline __device__ uint4 shift_bytes(uint4 low, uint4 high, unsigned shift) {
  const bool by_8 = shift & 8;
  const std::uint32_t a0 = by_8 ? low.z : low.x, a1 = by_8 ? low.w : low.y, a2 = by_8 ? high.x : low.z,
                      a3 = by_8 ? high.y : low.w, a4 = by_8 ? high.z : high.x, a5 = by_8 ? high.w : high.y;
  const bool by_4 = shift & 4;
  const std::uint32_t b0 = by_4 ? a1 : a0, b1 = by_4 ? a2 : a1, b2 = by_4 ? a3 : a2, b3 = by_4 ? a4 : a3,
                      b4 = by_4 ? a5 : a4;
  const unsigned bits = 8 * (shift & 3);
  return {__funnelshift_r(b0, b1, bits), __funnelshift_r(b1, b2, bits), __funnelshift_r(b2, b3, bits),
          __funnelshift_r(b3, b4, bits)};
}

/// The elements of 16 bytes.
template <class T>
using Elements = Vector<T, kPer16Bytes<T>>;

template <class T>
__device__ Elements<T> elements_of(uint4 bytes) {
  return std::bit_cast<Elements<T>>(bytes);
}

template <class Op, class T>
__device__ uint4 identities() {
  Elements<T> vector;
#pragma unroll
  for (T& element : vector.elements) element = Op::template identity<T>();
  return std::bit_cast<uint4>(vector);
}

/// Loads `count` elements of a vector at any address, by aligned loads that stay within the array. The
/// vector's other elements are the identity.
template <class Op, class T>
__device__ uint4 load_vector(const ReduceInput& in, const std::byte* address, int count) {
  const int size = count * static_cast<int>(sizeof(T));
  const unsigned shift = reinterpret_cast<std::uintptr_t>(address) % 16;
  const std::byte* const low = address - shift;
  const std::byte* const high = low + (shift + size - 1) / 16 * 16;
  uint4 bytes;
  if (low < in.begin || high + 16 > in.end) {
    bytes = load_bytes(address, size);
  } else {
    bytes = *reinterpret_cast<const uint4*>(low);
    if (shift != 0) bytes = shift_bytes(bytes, *reinterpret_cast<const uint4*>(high), shift);
  }
  if (count == kPer16Bytes<T>) return bytes;
  Elements<T> vector = elements_of<T>(bytes);
#pragma unroll
  for (int j = 1; j < kPer16Bytes<T>; ++j)
    vector.elements[j] = j < count ? vector.elements[j] : Op::template identity<T>();
  return std::bit_cast<uint4>(vector);
}

// ---- Accumulating ----

template <class T>
inline constexpr bool kIsNarrowInteger = std::integral<T> && sizeof(T) <= 2;

/// The type in which a reduction of Ts is accumulated.
template <class Op, class T>
using accumulator_of = std::conditional_t<
    !Op::kSelects, accumulator_t<T>,
    std::conditional_t<!kIsNarrowInteger<T>, compute_t<T>,
                       std::conditional_t<std::signed_integral<T>, std::int32_t, std::uint32_t>>>;
/// The type in which a few Ts are combined exactly.
template <class Op, class T>
using block_of = std::conditional_t<std::same_as<Op, arithmetic::Sum> && kIsNarrowInteger<T>, std::int32_t,
                                    accumulator_of<Op, T>>;

/// The number of loads in flight.
constexpr int kBatch = 4;

/// Combines the first 2 * kHalf of x, a power of two, into x[0].
template <class Op, int kHalf, class B>
__device__ __forceinline__ void combine_halves(B* x) {
  if constexpr (kHalf > 0) {
#pragma unroll
    for (int j = 0; j < kHalf; ++j) x[j] = Op::apply(x[j], x[j + kHalf]);
    combine_halves<Op, kHalf / 2>(x);
  }
}

/// Combines all elements into one value.
template <class Op, class T>
struct RowAccumulator {
  accumulator_of<Op, T> value = static_cast<accumulator_of<Op, T>>(widen(Op::template identity<T>()));

  __device__ void add(uint4 bytes) {
    const Elements<T> vector = elements_of<T>(bytes);
    block_of<Op, T> x[kPer16Bytes<T>];
#pragma unroll
    for (int j = 0; j < kPer16Bytes<T>; ++j) x[j] = static_cast<block_of<Op, T>>(widen(vector.elements[j]));
    combine_halves<Op, kPer16Bytes<T> / 2>(x);
    value = Op::apply(value, static_cast<accumulator_of<Op, T>>(x[0]));
  }
  __device__ void add(const uint4 (&batch)[kBatch]) {
#pragma unroll
    for (const uint4& bytes : batch) add(bytes);
  }
};

/// Combines the vectors' elements into one value for each position.
template <class Op, class T>
struct ColumnAccumulator {
  accumulator_of<Op, T> values[kPer16Bytes<T>];

  __device__ ColumnAccumulator() {
#pragma unroll
    for (auto& value : values) value = static_cast<accumulator_of<Op, T>>(widen(Op::template identity<T>()));
  }
  __device__ void add(uint4 bytes) {
    const Elements<T> vector = elements_of<T>(bytes);
#pragma unroll
    for (int j = 0; j < kPer16Bytes<T>; ++j)
      values[j] = Op::apply(values[j], static_cast<accumulator_of<Op, T>>(widen(vector.elements[j])));
  }
  __device__ void add(const uint4 (&batch)[kBatch]) {
    if constexpr (kIsNarrowInteger<T>) {  // integers are exact in any order
#pragma unroll
      for (int j = 0; j < kPer16Bytes<T>; ++j) {
        auto sum = static_cast<block_of<Op, T>>(elements_of<T>(batch[0]).elements[j]);
#pragma unroll
        for (int u = 1; u < kBatch; ++u)
          sum = Op::apply(sum, static_cast<block_of<Op, T>>(elements_of<T>(batch[u]).elements[j]));
        values[j] = Op::apply(values[j], static_cast<accumulator_of<Op, T>>(sum));
      }
    } else {
#pragma unroll
      for (const uint4& bytes : batch) add(bytes);
    }
  }
};

/// Vectors at a distance of `stride` bytes.
struct VectorRun {
  const std::byte* begin;
  std::int64_t stride;
  std::int64_t size;
  int count;       ///< Elements of each vector but the last.
  int last_count;  ///< Elements of the last one.
};

/// Adds vectors first, first + step, ... of the run, in this order whatever their alignment.
template <class Op, class T, class Accumulator>
__device__ void accumulate(Accumulator& accumulator, const ReduceInput& in, const VectorRun& run,
                           std::int64_t first, std::int64_t step) {
  constexpr int kWhole = kPer16Bytes<T>;
  std::int64_t v = first;
  if (in.aligned && run.count == kWhole) {
    const std::int64_t num_whole = run.last_count == kWhole ? run.size : run.size - 1;
    const std::byte* address = run.begin + first * run.stride;
    const std::int64_t advance = step * run.stride;
    uint4 batch[kBatch];
    for (; v + (kBatch - 1) * step < num_whole; v += kBatch * step, address += kBatch * advance) {
#pragma unroll
      for (int u = 0; u < kBatch; ++u) batch[u] = *reinterpret_cast<const uint4*>(address + u * advance);
      accumulator.add(batch);
    }
    std::int64_t rest = run.size;
#pragma unroll
    for (int u = 0; u < kBatch; ++u, v += step) {
      batch[u] = v < num_whole ? *reinterpret_cast<const uint4*>(address + u * advance) : identities<Op, T>();
      if (v == num_whole) rest = v;
    }
    accumulator.add(batch);
    v = rest;
  }
  for (; v < run.size; v += step) {
    const int count = v + 1 < run.size ? run.count : run.last_count;
    accumulator.add(load_vector<Op, T>(in, run.begin + v * run.stride, count));
  }
}

}  // namespace lockstep::cuda
