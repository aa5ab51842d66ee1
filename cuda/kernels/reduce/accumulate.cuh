#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/element.cuh"
#include "kernels/staged.cuh"

namespace lockstep::cuda {

/// The array that is reduced.
struct ReduceInput {
  ByteRange bytes;
  bool aligned;  ///< The array, and rows with it, begin at multiples of 16 bytes.
};

// ---- Reading ----

/// The elements of 16 bytes.
template <class T>
using Elements = Vector<T, kPer16Bytes<T>>;

template <class T>
__device__ Elements<T> elements_of(uint4 bytes) {
  return std::bit_cast<Elements<T>>(bytes);
}

/// The first `count` elements; the others become the identity.
template <class Op, class T>
__device__ uint4 first_of(uint4 bytes, int count) {
  if (count == kPer16Bytes<T>) return bytes;
  Elements<T> vector = elements_of<T>(bytes);
#pragma unroll
  for (int j = 0; j < kPer16Bytes<T>; ++j)
    vector.elements[j] = j < count ? vector.elements[j] : Op::template identity<T>();
  return std::bit_cast<uint4>(vector);
}

// ---- Accumulating ----

template <class T>
inline constexpr bool kIsNarrowInteger = std::integral<T> && sizeof(T) <= 2;

/// How Op accumulates Ts.
template <class Op, class T>
struct Accumulation {
  using Type = std::conditional_t<
      !Op::kSelects, accumulator_t<T>,
      std::conditional_t<!kIsNarrowInteger<T>, compute_t<T>,
                         std::conditional_t<std::signed_integral<T>, std::int32_t, std::uint32_t>>>;
  /// The value of one element. @param place  along the axis.
  static __device__ Type of(T element, [[maybe_unused]] std::int64_t place) {
    return static_cast<Type>(widen(element));
  }
};
template <class Op, class T>
using accumulator_of = typename Accumulation<Op, T>::Type;
/// The type in which the Ts of a part of an axis are combined exactly.
template <class Op, class T>
using block_of = std::conditional_t<std::same_as<Op, arithmetic::Sum> && kIsNarrowInteger<T>, std::int32_t,
                                    accumulator_of<Op, T>>;
template <class Op, class T>
inline constexpr bool kMultipliesNarrow = std::same_as<Op, arithmetic::Product>&& kIsNarrowInteger<T>;
/// The type in which kFew Ts are combined exactly: all of a vector, or as many as have a product of 32 bits.
template <class Op, class T>
using few_of = std::conditional_t<kMultipliesNarrow<Op, T>,
                                  std::conditional_t<std::signed_integral<T>, std::int32_t, std::uint32_t>,
                                  block_of<Op, T>>;
template <class Op, class T>
inline constexpr int kFew = kMultipliesNarrow<Op, T> ? 4 / static_cast<int>(sizeof(T)) : kPer16Bytes<T>;

/// The number of loads in flight. Many sums leave registers for fewer.
template <class T>
inline constexpr int kBatch = sizeof(T) < 4 ? 2 : 4;

/// Combines the first 2 * kHalf of x, a power of two, into the first kRest.
template <class Op, int kHalf, int kRest, class B>
__device__ __forceinline__ void combine_halves(B* x) {
  if constexpr (kHalf >= kRest) {
#pragma unroll
    for (int j = 0; j < kHalf; ++j) x[j] = Op::apply(x[j], x[j + kHalf]);
    combine_halves<Op, kHalf / 2, kRest>(x);
  }
}

/// Combines all elements into one value.
template <class Op, class T>
struct RowAccumulator {
  accumulator_of<Op, T> value = static_cast<accumulator_of<Op, T>>(widen(Op::template identity<T>()));

  __device__ void add(uint4 bytes) {
    const Elements<T> vector = elements_of<T>(bytes);
    few_of<Op, T> x[kPer16Bytes<T>];
#pragma unroll
    for (int j = 0; j < kPer16Bytes<T>; ++j) x[j] = static_cast<few_of<Op, T>>(widen(vector.elements[j]));
    constexpr int kRest = kPer16Bytes<T> / kFew<Op, T>;
    combine_halves<Op, kPer16Bytes<T> / 2, kRest>(x);
#pragma unroll
    for (int j = 0; j < kRest; ++j) value = Op::apply(value, static_cast<accumulator_of<Op, T>>(x[j]));
  }
  /// The value of vectors first, first + step, ...
  __device__ auto total(std::int64_t, std::int64_t) const { return value; }
  __device__ void add(const uint4 (&batch)[kBatch<T>]) {
#pragma unroll
    for (const uint4& bytes : batch) add(bytes);
  }
};

/// Combines the vectors' elements into one value for each position. Those of a part of an axis, of 1 MiB at
/// most, do not overflow sums in 32 bits of integers of 8 or 16 bits.
template <class Op, class T>
struct ColumnAccumulator {
  block_of<Op, T> values[kPer16Bytes<T>];

  __device__ ColumnAccumulator() {
#pragma unroll
    for (auto& value : values) value = static_cast<block_of<Op, T>>(widen(Op::template identity<T>()));
  }
  __device__ void add(uint4 bytes) {
    const Elements<T> vector = elements_of<T>(bytes);
#pragma unroll
    for (int j = 0; j < kPer16Bytes<T>; ++j)
      values[j] = Op::apply(values[j], static_cast<block_of<Op, T>>(widen(vector.elements[j])));
  }
  /// The value at position j of vectors first, first + step, ...
  __device__ auto total(int j, std::int64_t, std::int64_t) const {
    return static_cast<accumulator_of<Op, T>>(values[j]);
  }
  __device__ void add(const uint4 (&batch)[kBatch<T>]) {
#pragma unroll
    for (const uint4& bytes : batch) add(bytes);
  }
};

/// Adds `count` vectors at a distance of `advance` bytes. @pre they lie at multiples of 16 bytes.
template <class Op, class T, class Accumulator>
__device__ __forceinline__ void accumulate(Accumulator& accumulator, const std::byte* address,
                                           std::int64_t advance, int count) {
  for (; count > 0; count -= kBatch<T>, address += kBatch<T> * advance) {
    uint4 batch[kBatch<T>];
    if (count >= kBatch<T>) {
#pragma unroll
      for (int u = 0; u < kBatch<T>; ++u) batch[u] = *reinterpret_cast<const uint4*>(address + u * advance);
    } else {
#pragma unroll
      for (int u = 0; u < kBatch<T>; ++u)
        batch[u] =
            u < count ? *reinterpret_cast<const uint4*>(address + u * advance) : first_of<Op, T>(uint4(), 0);
    }
    accumulator.add(batch);
  }
}

/// `length` adjacent elements as vectors.
template <class T>
struct VectorRun {
  const std::byte* begin;
  std::int64_t size;
  int last_count;  ///< Elements of the last one.

  __device__ VectorRun(const std::byte* begin, std::int64_t length)
      : begin(begin),
        size((length + kPer16Bytes<T> - 1) / kPer16Bytes<T>),
        last_count(static_cast<int>(length - (size - 1) * kPer16Bytes<T>)) {}
  __device__ bool is_whole(std::int64_t v) const { return v + 1 < size || last_count == kPer16Bytes<T>; }
};

/// Adds the run's vectors lane, lane + group, ..., in this order whatever their alignment. @pre in.aligned
template <class Op, class T, class Accumulator>
__device__ void accumulate_row(Accumulator& accumulator, const ReduceInput& in, const VectorRun<T>& run,
                               int lane, int group) {
  const int count = run.size <= lane ? 0 : static_cast<int>((run.size - lane + group - 1) / group);
  const std::int64_t last = lane + std::int64_t{count - 1} * group;
  const bool is_ragged = count > 0 && !run.is_whole(last);
  accumulate<Op, T>(accumulator, run.begin + lane * 16, group * 16, is_ragged ? count - 1 : count);
  if (is_ragged)
    accumulator.add(first_of<Op, T>(load_whole(in.bytes, run.begin + last * 16), run.last_count));
}

/// The vectors that a thread stages at once.
constexpr int kStage = 4;

/// The same at any address, by all threads of a group of 32 or of a block: they load each 16 bytes once and
/// exchange them in shared memory.
/// @param staged  kStage * group + 1 vectors of the group's own.
template <class Op, class T, class Accumulator>
__device__ void accumulate_staged_row(Accumulator& accumulator, const ReduceInput& in,
                                      const VectorRun<T>& run, int lane, int group, uint4* staged) {
  const unsigned shift = reinterpret_cast<std::uintptr_t>(run.begin) % 16;
  const std::byte* const begin = run.begin - shift;
  const std::byte* const end = run.begin + (run.size - 1) * 16 + run.last_count * static_cast<int>(sizeof(T));
  const auto meet = [&] {
    if (group == 32)
      __syncwarp();
    else
      __syncthreads();
  };
  for (std::int64_t first = 0; first < run.size; first += kStage * group) {
    const std::byte* const address = begin + (first + lane) * 16;
    uint4 batch[kStage];
#pragma unroll
    for (int u = 0; u < kStage; ++u)
      if (address + u * group * 16 < end) batch[u] = load_whole(in.bytes, address + u * group * 16);
    if (lane == 0 && address + kStage * group * 16 < end)
      staged[kStage * group] = load_whole(in.bytes, address + kStage * group * 16);
#pragma unroll
    for (int u = 0; u < kStage; ++u)
      if (address + u * group * 16 < end) staged[lane + u * group] = batch[u];
    meet();
#pragma unroll
    for (int u = 0; u < kStage; ++u) {
      const std::int64_t v = first + lane + u * group;
      // The last one may reach beyond what is loaded, but not with elements.
      if (v < run.size)
        accumulator.add(first_of<Op, T>(load_staged(staged + lane + u * group, shift),
                                        run.is_whole(v) ? kPer16Bytes<T> : run.last_count));
    }
    meet();  // before the next ones are staged
  }
}

}  // namespace lockstep::cuda
