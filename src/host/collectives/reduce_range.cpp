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
#include "host/collectives/float_lanes-inl.hpp"
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

// What T is combined in.
template <class T>
using Wide = std::conditional_t<std::integral<T> || std::same_as<T, double>, T, float>;

// Integers wrap: computed in an unsigned type that is not promoted to int.
template <class A>
using Wrapping = std::conditional_t<sizeof(A) < sizeof(unsigned), unsigned, std::make_unsigned_t<A>>;

struct Sum {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::Add(a, b);
  }
  template <class A>
  static A apply(A a, A b) {
    if constexpr (std::integral<A>)
      return static_cast<A>(static_cast<Wrapping<A>>(a) + static_cast<Wrapping<A>>(b));
    else
      return a + b;
  }
};
struct Product {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::Mul(a, b);
  }
  template <class A>
  static A apply(A a, A b) {
    if constexpr (std::integral<A>)
      return static_cast<A>(static_cast<Wrapping<A>>(a) * static_cast<Wrapping<A>>(b));
    else
      return a * b;
  }
};
// a, or b where it is smaller or NaN; a NaN in a stays, as no comparison with it holds.
struct Min {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  }
  template <class A>
  static A apply(A a, A b) {
    return (b < a) | (b != b) ? b : a;
  }
};
struct Max {
  template <class V>
  static V apply_lanes(V a, V b) {
    return hn::IfThenElse(hn::Or(hn::Gt(b, a), hn::IsNaN(b)), b, a);
  }
  template <class A>
  static A apply(A a, A b) {
    return (b > a) | (b != b) ? b : a;
  }
};

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

// destinations[d] := sources[0] op … op sources[K - 1] for all d < D, in one loop: an all_reduce within the
// caches takes half the time, and one in place 0.85 of it anywhere. A destination may be a source, so the
// compiler must be told that iterations are independent.
template <class Op, int K, int D, class T>
void combine_into(T* const* destinations, const T* const* sources, std::size_t n) {
  static_assert(K >= 2 && K <= 4 && (D == 1 || D == K));
  const T *s0 = sources[0], *s1 = sources[1], *s2 = sources[K > 2 ? 2 : 0], *s3 = sources[K > 3 ? 3 : 0];
  T *d0 = destinations[0], *d1 = destinations[D > 1 ? 1 : 0], *d2 = destinations[D > 2 ? 2 : 0],
    *d3 = destinations[D > 3 ? 3 : 0];
  std::size_t i = 0;
  if constexpr (kInLanes<T>) {
    const std::size_t step = 2 * hn::Lanes(Floats());
    for (; i + step <= n; i += step) {
      FloatPair value = apply_pairs<Op>(load_pair(s0 + i), load_pair(s1 + i));
      if constexpr (K > 2) value = apply_pairs<Op>(value, load_pair(s2 + i));
      if constexpr (K > 3) value = apply_pairs<Op>(value, load_pair(s3 + i));
      store_pair(value, d0 + i);
      if constexpr (D > 1) store_pair(value, d1 + i);
      if constexpr (D > 2) store_pair(value, d2 + i);
      if constexpr (D > 3) store_pair(value, d3 + i);
    }
  }
#pragma GCC ivdep
  for (; i < n; ++i) {
    auto value = Op::apply(static_cast<Wide<T>>(s0[i]), static_cast<Wide<T>>(s1[i]));
    if constexpr (K > 2) value = Op::apply(value, static_cast<Wide<T>>(s2[i]));
    if constexpr (K > 3) value = Op::apply(value, static_cast<Wide<T>>(s3[i]));
    const T result = static_cast<T>(value);
    d0[i] = result;
    if constexpr (D > 1) d1[i] = result;
    if constexpr (D > 2) d2[i] = result;
    if constexpr (D > 3) d3[i] = result;
  }
}

constexpr std::size_t kLineBytes = 64;

// How far into a cache line `destination` begins: blocks that end where lines do are streamed whole.
template <class T>
std::size_t elements_into_line(const void* destination) {
  return reinterpret_cast<std::uintptr_t>(destination) % kLineBytes / sizeof(T);
}

// The same with streaming stores, of a few lines at a time: each keeps a store buffer for itself until it is
// full, so lines of several destinations must not alternate vector by vector.
template <class Op, int K, int D, class T>
void stream_into(T* const* destinations, const T* const* sources, std::size_t n) {
  constexpr std::size_t kStep = 4 * kLineBytes / sizeof(T);
  const hn::CappedTag<std::uint8_t, kLineBytes> lanes;
  const T* from[K];
  T* to[D];
  const auto advance = [&](std::size_t i) {
    for (int k = 0; k < K; ++k) from[k] = sources[k] + i;
    for (int d = 0; d < D; ++d) to[d] = destinations[d] + i;
  };
  const std::size_t into_line = elements_into_line<T>(destinations[0]);
  std::size_t i = std::min(n, into_line == 0 ? 0 : kLineBytes / sizeof(T) - into_line);
  combine_into<Op, K, D>(destinations, sources, i);
  for (; i + kStep <= n; i += kStep) {
    advance(i);
    alignas(kLineBytes) T block[kStep];
    T* const whole = block;
    combine_into<Op, K, 1>(&whole, from, kStep);
    for (int d = 0; d < D; ++d) {
      if (reinterpret_cast<std::uintptr_t>(to[d]) % kLineBytes != 0) {
        std::memcpy(to[d], block, sizeof(block));
        continue;
      }
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(block);
      auto* out = reinterpret_cast<std::uint8_t*>(to[d]);
      for (std::size_t j = 0; j < sizeof(block); j += hn::Lanes(lanes))
        hn::Stream(hn::Load(lanes, bytes + j), lanes, out + j);
    }
  }
  advance(i);
  combine_into<Op, K, D>(to, from, n - i);
}

template <class Op, int K, class T>
void combine_into(T* const* destinations, const T* const* sources, std::size_t n,
                  std::size_t num_destinations, bool streaming) {
  if (num_destinations == 1)
    streaming ? stream_into<Op, K, 1>(destinations, sources, n)
              : combine_into<Op, K, 1>(destinations, sources, n);
  else
    streaming ? stream_into<Op, K, K>(destinations, sources, n)
              : combine_into<Op, K, K>(destinations, sources, n);
}

// Does that where it can.
template <class Op, class T>
bool reduced_directly(std::size_t count, std::span<const void* const> sources,
                      std::span<void* const> destinations, bool streaming) {
  const std::size_t k = sources.size(), d = destinations.size();
  if (k < 2 || k > 4 || (d != 1 && d != k)) return false;
  const T* from[4] = {};
  T* to[4] = {};
  std::uintptr_t addresses = 0;
  for (std::size_t i = 0; i < k; ++i) {
    from[i] = static_cast<const T*>(sources[i]);
    addresses |= reinterpret_cast<std::uintptr_t>(sources[i]);
  }
  for (std::size_t i = 0; i < d; ++i) {
    if (destinations[i] == nullptr) return false;
    to[i] = static_cast<T*>(destinations[i]);
    addresses |= reinterpret_cast<std::uintptr_t>(destinations[i]);
  }
  if (addresses % alignof(T) != 0) return false;
  switch (k) {
    case 2: combine_into<Op, 2>(to, from, count, d, streaming); break;
    case 3: combine_into<Op, 3>(to, from, count, d, streaming); break;
    default: combine_into<Op, 4>(to, from, count, d, streaming); break;
  }
  return true;
}

// The mean of one element whose sum is not finite. Scaled down by a power of two the sum of finite numbers
// cannot overflow, and their mean lies between them.
template <class T, class A>
A mean_of_large(std::span<const void* const> sources, std::size_t i, A divisor) {
  int exponent = 0;
  std::frexp(divisor, &exponent);
  A sum = 0, lowest = INFINITY, highest = -INFINITY;
  for (const void* source : sources) {
    T element;
    std::memcpy(&element, static_cast<const std::byte*>(source) + i * sizeof(T), sizeof(T));
    const A value = static_cast<A>(element);
    if (!std::isfinite(value)) return NAN;
    sum += std::ldexp(value, -exponent);
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  return std::clamp(std::ldexp(sum / divisor, exponent), lowest, highest);
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
    const bool in_place = std::ranges::equal(sources, destinations);
    if (!mean && reduced_directly<Op, T>(count, sources, destinations, streaming && !in_place)) return;
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
