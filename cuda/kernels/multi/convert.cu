#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "kernels/multi/multi.hpp"
#include "kernels/multi/table.cuh"

namespace lockstep::cuda {
namespace {

template <class From, class To>
struct Cast {
  __device__ To operator()(From value) const { return static_cast<To>(value); }
};

template <class From, class To>
struct Multiply {
  compute_t<From> factor;
  __device__ To operator()(From value) const { return narrow<To>(widen(value) * factor); }
};

template <class From, class To>
struct Divide {
  compute_t<From> divisor;
  __device__ To operator()(From value) const { return narrow<To>(widen(value) / divisor); }
};

// A positive float's bits, as a signed integer, are ordered as the float; a negative one's the other way
// round. Only NaN becomes an extreme integer.
template <class From, class I>
struct ToOrdered {
  bool nan_is_largest;
  __device__ I operator()(From from) const {
    constexpr I kLargest = std::numeric_limits<I>::max();
    const compute_t<From> value = widen(from);
    const I bits = std::bit_cast<I>(value);
    if (value != value) return nan_is_largest ? kLargest : std::numeric_limits<I>::min();
    return bits < 0 ? bits ^ kLargest : bits;
  }
};

template <class I, class To>
struct FromOrdered {
  __device__ To operator()(I ordered) const {
    using C = compute_t<To>;
    constexpr I kLargest = std::numeric_limits<I>::max();
    const bool is_nan = ordered == kLargest || ordered == std::numeric_limits<I>::min();
    const C value = std::bit_cast<C>(ordered < 0 ? ordered ^ kLargest : ordered);
    return narrow<To>(is_nan ? std::numeric_limits<C>::quiet_NaN() : value);
  }
};

/// As many as make 16 bytes of the larger elements.
template <class From, class To>
inline constexpr int kPerVector = static_cast<int>(16 / std::max(sizeof(From), sizeof(To)));

/// An item's arrays are its Froms and its Tos.
template <class From, class To, class Convert>
__global__ void __launch_bounds__(kThreads, 5)
    convert_all_kernel(__grid_constant__ const Table table, Convert convert) {
  const ArrayPart part = part_of_block(table);
  for_each_vector<kPerVector<From, To>>(part, [&](std::int64_t i, auto constant) {
    constexpr int kCount = decltype(constant)::value;
    const auto from = load<From, kCount>(part.arrays[0], i, part.item.aligned);
    Vector<To, kCount> to;
#pragma unroll
    for (int j = 0; j < kCount; ++j) to.elements[j] = convert(from.elements[j]);
    store<To, kCount>(part.arrays[1], i, to, part.item.aligned);
  });
}

/// The split of arrays of two types, in vectors of as many elements.
template <class From, class To>
Item item_of(const Move& move) {
  constexpr int kCount = kPerVector<From, To>;
  Item item{.count = move.count};
  item.aligned = are_multiples(sizeof(From), move.from) && are_multiples(sizeof(To), move.to);
  for (int head = 0; item.aligned && head < std::min<std::int64_t>(kCount, move.count); ++head) {
    const Split split{head, (move.count - head) / kCount};
    if (!are_multiples(kCount * sizeof(From), split.origin<From>(move.from)) ||
        !are_multiples(kCount * sizeof(To), split.origin<To>(move.to)))
      continue;
    item.split = split;
    break;
  }
  return item;
}

template <class From, class To, class Convert>
void run(const Place& place, const Convert& convert, std::span<const Move> moves) {
  Tables tables(2, [&](const Table& table, unsigned blocks) {
    launch(place, "Converting values for NCCL", blocks, kThreads, convert_all_kernel<From, To, Convert>,
           table, convert);
  });
  for (const Move& move : moves) {
    const Item item = item_of<From, To>(move);
    tables.add(
        item, kPerVector<From, To>,
        std::array<const void*, 2>{item.split.origin<From>(move.from), item.split.origin<To>(move.to)});
  }
  tables.flush();
}

template <class T>
using Ordered = std::conditional_t<std::same_as<compute_t<T>, double>, std::int64_t, std::int32_t>;

/// Calls `f.template operator()<T>()` for a floating dtype.
template <class F>
void dispatch_float(DType dtype, const F& f) {
  dispatch(dtype, [&]<class T>() {
    if constexpr (!std::integral<T>) f.template operator()<T>();
  });
}

/// Between a float and the type it travels in: a float for smaller ones, except bf16.
template <template <class, class> class Convert>
void scale(const Place& place, const Conversions& conversions, double factor, std::span<const Move> moves) {
  const bool shrinks = conversions.to != conversions.from && conversions.from == DType::f32;
  dispatch_float(shrinks ? conversions.to : conversions.from, [&]<class T>() {
    using C = compute_t<T>;
    const C exact = static_cast<C>(factor);
    if constexpr (std::same_as<T, C> || std::same_as<T, bf16>)
      run<T, T>(place, Convert<T, T>{exact}, moves);
    else if (shrinks)
      run<C, T>(place, Convert<C, T>{exact}, moves);
    else
      run<T, C>(place, Convert<T, C>{exact}, moves);
  });
}

void cast(const Place& place, const Conversions& conversions, std::span<const Move> moves) {
  const auto run_both = [&]<class Small>(Small) {
    if (conversions.to == DType::i32)
      run<Small, std::int32_t>(place, Cast<Small, std::int32_t>(), moves);
    else
      run<std::int32_t, Small>(place, Cast<std::int32_t, Small>(), moves);
  };
  const bool is_signed = conversions.from == DType::i16 || conversions.to == DType::i16;
  return is_signed ? run_both(std::int16_t()) : run_both(std::uint16_t());
}

void copy(const Place& place, DType dtype, std::span<const Move> moves) {
  std::vector<void*> destinations;
  std::vector<Spread> spreads;
  destinations.reserve(moves.size());
  spreads.reserve(moves.size());
  for (const auto& [from, to, count] : moves) {
    destinations.push_back(to);
    spreads.push_back({count * static_cast<std::int64_t>(size_of(dtype)), from, {&destinations.back(), 1}});
  }
  copy_all(place, spreads);
}

}  // namespace

void convert_all(const Place& place, const Conversions& conversions, double factor,
                 std::span<const Move> moves) {
  switch (conversions.conversion) {
    case Conversion::none: return copy(place, conversions.from, moves);
    case Conversion::cast: return cast(place, conversions, moves);
    case Conversion::multiply: return scale<Multiply>(place, conversions, factor, moves);
    case Conversion::divide: return scale<Divide>(place, conversions, factor, moves);
    case Conversion::to_ordered_for_min:
    case Conversion::to_ordered_for_max:
      return dispatch_float(conversions.from, [&]<class T>() {
        const bool nan_is_largest = conversions.conversion == Conversion::to_ordered_for_max;
        run<T, Ordered<T>>(place, ToOrdered<T, Ordered<T>>{nan_is_largest}, moves);
      });
    case Conversion::from_ordered:
      return dispatch_float(
          conversions.to, [&]<class T>() { run<Ordered<T>, T>(place, FromOrdered<Ordered<T>, T>(), moves); });
  }
}

}  // namespace lockstep::cuda
