// Compiled once for each instruction set below, and the best one that the machine has is taken at run time.
// Without AVX2 there are no instructions for f16, and plain loops serve.
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

#include "detail/float_environment.hpp"
#include "host/collectives/direct_reduction-inl.hpp"
#include "host/collectives/float_lanes-inl.hpp"
#include "host/collectives/range_operators-inl.hpp"
#include "host/collectives/reduce_range.hpp"
#include "host/collectives/streaming.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::host {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Bytes of the accumulator block: with the blocks of a few sources it stays in the second-level cache, and is
// long enough for the prefetchers. Streaming stores want a steady mix of reads and writes: a long block costs
// a tenth.
constexpr std::size_t kBlockBytes = 8192;
constexpr std::size_t kStreamedBlockBytes = 1024;

// acc := sources[0] op … op sources[K - 1], or acc op them. One pass over up to four sources saves passes
// over acc.
template <class Op, bool kFirst, int K, class T, class A>
void combine(A* __restrict acc, const T* const* sources, std::size_t n) {
  const T* s0 = sources[0];
  const T* s1 = sources[K > 1 ? 1 : 0];
  const T* s2 = sources[K > 2 ? 2 : 0];
  const T* s3 = sources[K > 3 ? 3 : 0];
  std::size_t i = 0;
  if constexpr (kInLanes<T>) {
    const Floats d;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
      auto value = load_floats(s0 + i);
      if constexpr (!kFirst) value = Op::apply_lanes(hn::LoadU(d, acc + i), value);
      if constexpr (K > 1) value = Op::apply_lanes(value, load_floats(s1 + i));
      if constexpr (K > 2) value = Op::apply_lanes(value, load_floats(s2 + i));
      if constexpr (K > 3) value = Op::apply_lanes(value, load_floats(s3 + i));
      hn::StoreU(value, d, acc + i);
    }
  }
  for (; i < n; ++i) {
    A value = static_cast<A>(s0[i]);
    if constexpr (!kFirst) value = Op::apply(acc[i], value);
    if constexpr (K > 1) value = Op::apply(value, static_cast<A>(s1[i]));
    if constexpr (K > 2) value = Op::apply(value, static_cast<A>(s2[i]));
    if constexpr (K > 3) value = Op::apply(value, static_cast<A>(s3[i]));
    acc[i] = value;
  }
}

// rounded := acc, narrowed.
template <class T>
void narrow(T* __restrict rounded, const float* __restrict acc, std::size_t n) {
  std::size_t i = 0;
  if constexpr (kInLanes<T>) {
    const Floats d;
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) store_floats(hn::LoadU(d, acc + i), rounded + i);
  }
  for (; i < n; ++i) rounded[i] = static_cast<T>(acc[i]);
}

template <class Op, bool kFirst, class T, class A>
void combine_up_to_four(A* acc, const T* const* sources, std::size_t num_sources, std::size_t n) {
  switch (num_sources) {
    case 1: return combine<Op, kFirst, 1>(acc, sources, n);
    case 2: return combine<Op, kFirst, 2>(acc, sources, n);
    case 3: return combine<Op, kFirst, 3>(acc, sources, n);
    default: return combine<Op, kFirst, 4>(acc, sources, n);
  }
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
  for (std::size_t i = 0; i < n; ++i) {
    if (std::isfinite(acc[i])) continue;
    const A mean = mean_of_large<T>(sources, begin + i, divisor);
    if (!std::isnan(mean)) acc[i] = mean;
  }
}

template <class Op, class T>
void reduce_blocks(bool mean, std::size_t count, std::span<const void* const> sources,
                   std::span<void* const> destinations, bool streaming) {
  using A = Wide<T>;
  if constexpr (std::same_as<A, T> || kInLanes<T>) {
    const bool streams = streaming && !std::ranges::equal(sources, destinations);
    if constexpr (std::same_as<Op, Sum> && std::floating_point<A>) {
      if (mean && reduced_directly<Op, true, T>(count, sources, destinations, streams)) return;
    }
    if (!mean && reduced_directly<Op, false, T>(count, sources, destinations, streams)) return;
  }
  constexpr std::size_t kBlock = kBlockBytes / sizeof(A);
  alignas(64) A acc[kBlock];
  alignas(64) T aligned[4][kBlock];  // copies of blocks at odd addresses
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
      if (first == 0)
        combine_up_to_four<Op, true>(acc, group, num_sources, n);
      else
        combine_up_to_four<Op, false>(acc, group, num_sources, n);
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
      // In place the lines have just been read, and are in a cache.
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
      const auto n = static_cast<std::size_t>(count);
      switch (op) {
        case ReduceOp::sum: return reduce_blocks<Sum, T>(false, n, sources, destinations, streaming);
        case ReduceOp::mean: return reduce_blocks<Sum, T>(true, n, sources, destinations, streaming);
        case ReduceOp::min: return reduce_blocks<Min, T>(false, n, sources, destinations, streaming);
        case ReduceOp::max: return reduce_blocks<Max, T>(false, n, sources, destinations, streaming);
        case ReduceOp::product: return reduce_blocks<Product, T>(false, n, sources, destinations, streaming);
      }
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
