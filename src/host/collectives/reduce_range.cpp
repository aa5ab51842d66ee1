// Compiled once for each instruction set below; the best one that the machine has is chosen at run time.
// Without AVX2 there are no f16 instructions, and plain loops are used.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/collectives/reduce_range.cpp"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>
//
#include <algorithm>
#include <cassert>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "arithmetic/dispatch_operator.hpp"
#include "arithmetic/operators.hpp"
#include "arithmetic/scaled_sum.hpp"
#include "detail/float_environment.hpp"
#include "host/collectives/direct_reduction-inl.hpp"
#include "host/collectives/float_lanes-inl.hpp"
#include "host/collectives/reduce_range.hpp"
#include "host/collectives/streaming.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::host {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Size of the accumulator block. With the blocks of a few sources it stays in the second-level cache, and it
// is long enough for the prefetchers. Streaming stores need a steady mix of reads and writes: there a long
// block costs a tenth.
constexpr std::size_t kBlockBytes = 8192;
constexpr std::size_t kStreamedBlockBytes = 1024;

// acc := sources[0] op … op sources[K - 1]; unless these are the first sources, acc is combined with them.
// One pass over up to four sources saves passes over acc.
// @pre acc has room for whole vectors.
template <class Op, bool kFirst, int K, class T>
void combine_lanes(float* __restrict acc, const T* const* sources, std::size_t n) {
  const Floats d;
  const T *s0 = sources[0], *s1 = sources[K > 1 ? 1 : 0], *s2 = sources[K > 2 ? 2 : 0],
          *s3 = sources[K > 3 ? 3 : 0];
  const auto combine = [&](float* to, const auto& load) HWY_ATTR {
    auto value = load(s0);
    if constexpr (!kFirst) value = apply_lanes<Op>(hn::LoadU(d, to), value);
    if constexpr (K > 1) value = apply_lanes<Op>(value, load(s1));
    if constexpr (K > 2) value = apply_lanes<Op>(value, load(s2));
    if constexpr (K > 3) value = apply_lanes<Op>(value, load(s3));
    hn::StoreU(value, d, to);
  };
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d))
    combine(acc + i, [=](const T* source) HWY_ATTR { return load_floats(source + i); });
  if (i < n) combine(acc + i, [=](const T* source) HWY_ATTR { return load_some_floats(source + i, n - i); });
}
template <class Op, bool kFirst, class T>
void combine_lanes(float* acc, std::span<const T* const> sources, std::size_t n) {
  switch (sources.size()) {
    case 1: return combine_lanes<Op, kFirst, 1>(acc, sources.data(), n);
    case 2: return combine_lanes<Op, kFirst, 2>(acc, sources.data(), n);
    case 3: return combine_lanes<Op, kFirst, 3>(acc, sources.data(), n);
    default: return combine_lanes<Op, kFirst, 4>(acc, sources.data(), n);
  }
}

// Used where conversions take most of the time: combines one source after the other. The functions are not
// inlined, because the compiler would forget that acc overlaps no source, and would not vectorise the loops.
template <class T>
HWY_NOINLINE void widen(float* __restrict acc, const T* __restrict source, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) acc[i] = static_cast<float>(source[i]);
}
template <class Op, class T>
HWY_NOINLINE void combine_one(float* __restrict acc, const T* __restrict source, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) acc[i] = Op::apply(acc[i], static_cast<float>(source[i]));
}

// Combines up to four sources, with acc unless they are the first ones.
template <class Op, class T>
void combine_group(compute_t<T>* acc, bool is_first, std::span<const T* const> sources, std::size_t n) {
  if constexpr (std::same_as<compute_t<T>, T>) {
    const T* from[5] = {acc};
    const auto* const end = std::ranges::copy(sources, from + (is_first ? 0 : 1)).out;
    switch (end - from) {
      case 1: std::memcpy(acc, from[0], n * sizeof(T)); return;
      case 2: return combine_into<Op, false, 2, 1>(&acc, from, n);
      case 3: return combine_into<Op, false, 3, 1>(&acc, from, n);
      case 4: return combine_into<Op, false, 4, 1>(&acc, from, n);
      default: return combine_into<Op, false, 5, 1>(&acc, from, n);
    }
  } else if constexpr (kInLanes<T>) {
    is_first ? combine_lanes<Op, true>(acc, sources, n) : combine_lanes<Op, false>(acc, sources, n);
  } else {
    if (is_first) widen(acc, sources[0], n);
    for (const T* source : sources.subspan(is_first ? 1 : 0)) combine_one<Op>(acc, source, n);
  }
}

// Rounds acc to T.
template <class T>
void narrow(T* __restrict rounded, const float* __restrict acc, std::size_t n) {
  std::size_t i = 0;
  if constexpr (kInLanes<T>) {
    const Floats d;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) store_floats(hn::LoadU(d, acc + i), rounded + i);
  }
  for (; i < n; ++i) rounded[i] = static_cast<T>(acc[i]);
}

template <class T, class A>
void divide(A* __restrict acc, std::size_t n, std::span<const void* const> sources, std::size_t begin) {
  const A divisor = static_cast<A>(sources.size());
  bool all_finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    acc[i] /= divisor;
    all_finite &= std::abs(acc[i]) < INFINITY;
  }
  if (all_finite) return;
  for (std::size_t i = 0; i < n; ++i)
    if (!arithmetic::is_finite(acc[i])) acc[i] = mean_of_large<T>(sources, begin + i);
}

template <class Op, class T>
void reduce_blocks(bool mean, std::size_t count, std::span<const void* const> sources,
                   std::span<void* const> destinations, bool streaming) {
  using A = compute_t<T>;
  if constexpr (std::same_as<A, T> || kInLanes<T>) {
    const bool streams = streaming && !std::ranges::equal(sources, destinations);
    if constexpr (std::same_as<Op, arithmetic::Sum> && std::floating_point<A>) {
      if (mean && reduced_directly<Op, true, T>(count, sources, destinations, streams)) return;
    }
    if (!mean && reduced_directly<Op, false, T>(count, sources, destinations, streams)) return;
  }
  constexpr std::size_t kBlock = kBlockBytes / sizeof(A);
  alignas(64) A acc[kBlock];
  alignas(64) T aligned[4][kBlock];  // copies of misaligned blocks
  alignas(64) T rounded[std::same_as<A, T> ? 1 : kBlock];

  const std::size_t block = streaming ? kStreamedBlockBytes / sizeof(A) : kBlock;
  const auto given = std::ranges::find_if(destinations, [](const void* to) { return to != nullptr; });
  const std::size_t into_line = given == destinations.end() ? 0 : elements_into_line<T>(*given);
  std::size_t n = 0;
  for (std::size_t begin = 0; begin < count; begin += n) {
    n = std::min(begin == 0 && streaming ? block - into_line : block, count - begin);
    for (std::size_t first = 0; first < sources.size(); first += 4) {
      const std::size_t num_sources = std::min<std::size_t>(4, sources.size() - first);
      const T* group[4] = {};
      for (std::size_t i = 0; i < num_sources; ++i) {
        const std::byte* source = static_cast<const std::byte*>(sources[first + i]) + begin * sizeof(T);
        if (reinterpret_cast<std::uintptr_t>(source) % alignof(T) != 0) {
          source = static_cast<const std::byte*>(std::memcpy(aligned[i], source, n * sizeof(T)));
        }
        group[i] = reinterpret_cast<const T*>(source);
      }
      combine_group<Op, T>(acc, first == 0, {group, num_sources}, n);
    }
    if constexpr (std::floating_point<A>) {
      if (mean) divide<T>(acc, n, sources, begin);
    }
    const void* result = acc;
    if constexpr (!std::same_as<A, T>) {
      narrow(rounded, acc, n);
      result = rounded;
    }
    for (void* destination : destinations) {
      if (destination == nullptr) continue;
      std::byte* out = static_cast<std::byte*>(destination) + begin * sizeof(T);
      // In place, the lines have just been read and are in a cache.
      const bool in_place = std::ranges::find(sources, destination) != sources.end();
      if (streaming && !in_place)
        stream_copy(out, result, n * sizeof(T));
      else
        std::memcpy(out, result, n * sizeof(T));
    }
  }
}

}  // namespace

void combine_range(ReduceOp op, DType dtype, std::int64_t count, std::span<const void* const> sources,
                   std::span<void* const> destinations, bool streaming) {
  dispatch(dtype, [&]<class T>() {
    assert((!std::same_as<T, bool>)&&(op != ReduceOp::mean || !std::integral<T>));
    if constexpr (!std::same_as<T, bool>) {
      arithmetic::dispatch_operator(op, [&]<class Op>() {
        // Sums and products that wrap are the same for signed and unsigned integers.
        using Element = std::conditional_t<std::integral<T> && !Op::kSelects, std::make_unsigned<T>,
                                           std::type_identity<T>>;
        reduce_blocks<Op, typename Element::type>(op == ReduceOp::mean, static_cast<std::size_t>(count),
                                                  sources, destinations, streaming);
      });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace lockstep::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::host {

HWY_EXPORT(combine_range);

void reduce_range(ReduceOp op, DType dtype, std::int64_t count, std::span<const void* const> sources,
                  std::span<void* const> destinations, bool streaming) {
  const detail::FloatEnvironment environment;
  HWY_DYNAMIC_DISPATCH(combine_range)(op, dtype, count, sources, destinations, streaming);
}

}  // namespace lockstep::host
#endif
