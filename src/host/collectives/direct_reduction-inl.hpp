// Reductions of a few sources in one loop, for each instruction set: included once for each, as Highway's own
// "-inl.h" are.
#if defined(LOCKSTEP_DIRECT_REDUCTION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIRECT_REDUCTION_INL
#undef LOCKSTEP_DIRECT_REDUCTION_INL
#else
#define LOCKSTEP_DIRECT_REDUCTION_INL
#endif

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "host/collectives/float_lanes-inl.hpp"
#include "host/collectives/range_operators-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::host::HWY_NAMESPACE {
namespace {

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

// A sum of K values over K. Of the powers of two the reciprocal is exact.
template <int K, class D>
hn::Vec<D> over_k(D d, hn::Vec<D> sum) {
  if constexpr ((K & (K - 1)) == 0)
    return hn::Mul(sum, hn::Set(d, hn::TFromD<D>{1} / K));
  else
    return hn::Div(sum, hn::Set(d, K));
}

// Element i of K sources, combined.
template <class Op, bool kMean, int K, class T>
T combined(const T* const* sources, std::size_t i) {
  using A = Wide<T>;
  A value = static_cast<A>(sources[0][i]);
  for (int k = 1; k < K; ++k) value = Op::apply(value, static_cast<A>(sources[k][i]));
  if constexpr (kMean) {
    value /= K;
    if (!std::isfinite(value)) {
      const void* const elements[] = {sources[0], sources[1], sources[K > 2 ? 2 : 0], sources[K > 3 ? 3 : 0]};
      const A mean = mean_of_large<T>(std::span(elements).first(K), i, A{K});
      if (!std::isnan(mean)) value = mean;
    }
  }
  return static_cast<T>(value);
}

// Elements begin to end, the slow way. Kept out of the loops, whose registers it would take.
template <class Op, bool kMean, int K, int D, class T>
HWY_NOINLINE void combine_one_by_one(T* const* destinations, const T* const* sources, std::size_t begin,
                                     std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    const T value = combined<Op, kMean, K>(sources, i);
    for (int d = 0; d < D; ++d) destinations[d][i] = value;
  }
}

// destinations[d] := sources[0] op … op sources[K - 1], over K where they are averaged, for all d < D, in one
// loop: an all_reduce within the caches takes half the time, and one in place 0.85 of it anywhere. A
// destination may be a source, so the compiler must be told that iterations are independent.
template <class Op, bool kMean, int K, int D, class T>
void combine_into(T* const* destinations, const T* const* sources, std::size_t n) {
  static_assert(K >= 2 && K <= 4 && (D == 1 || D == K));
  const T *s0 = sources[0], *s1 = sources[1], *s2 = sources[K > 2 ? 2 : 0], *s3 = sources[K > 3 ? 3 : 0];
  T *d0 = destinations[0], *d1 = destinations[D > 1 ? 1 : 0], *d2 = destinations[D > 2 ? 2 : 0],
    *d3 = destinations[D > 3 ? 3 : 0];
  const auto store = [=](std::size_t at, auto value, auto write) {
    write(value, d0 + at);
    if constexpr (D > 1) write(value, d1 + at);
    if constexpr (D > 2) write(value, d2 + at);
    if constexpr (D > 3) write(value, d3 + at);
  };
  const auto one_by_one = [=](std::size_t begin, std::size_t end) {
    combine_one_by_one<Op, kMean, K, D>(destinations, sources, begin, end);
  };
  std::size_t i = 0;
  if constexpr (kInLanes<T> || kMean) {
    const hn::ScalableTag<Wide<T>> d;
    const std::size_t step = 2 * hn::Lanes(d);
    for (; i + step <= n; i += step) {
      auto value = apply_pairs<Op>(load_pair(s0 + i), load_pair(s1 + i));
      if constexpr (K > 2) value = apply_pairs<Op>(value, load_pair(s2 + i));
      if constexpr (K > 3) value = apply_pairs<Op>(value, load_pair(s3 + i));
      if constexpr (kMean) {
        value = {over_k<K>(d, value.a), over_k<K>(d, value.b)};
        // Finite where both are, unless they are so large that their sum is not.
        if (HWY_UNLIKELY(!hn::AllTrue(d, hn::IsFinite(hn::Add(value.a, value.b))))) {
          one_by_one(i, i + step);
          continue;
        }
      }
      store(i, value, [](auto pair, T* to) { store_pair(pair, to); });
    }
  }
  if constexpr (kMean) return one_by_one(i, n);
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
template <class Op, bool kMean, int K, int D, class T>
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
  combine_into<Op, kMean, K, D>(destinations, sources, i);
  for (; i + kStep <= n; i += kStep) {
    advance(i);
    alignas(kLineBytes) T block[kStep];
    T* const whole = block;
    combine_into<Op, kMean, K, 1>(&whole, from, kStep);
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
  combine_into<Op, kMean, K, D>(to, from, n - i);
}

template <class Op, bool kMean, int K, class T>
void combine_into(T* const* destinations, const T* const* sources, std::size_t n,
                  std::size_t num_destinations, bool streaming) {
  if (num_destinations == 1)
    streaming ? stream_into<Op, kMean, K, 1>(destinations, sources, n)
              : combine_into<Op, kMean, K, 1>(destinations, sources, n);
  else
    streaming ? stream_into<Op, kMean, K, K>(destinations, sources, n)
              : combine_into<Op, kMean, K, K>(destinations, sources, n);
}

// Does that where it can.
template <class Op, bool kMean, class T>
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
    case 2: combine_into<Op, kMean, 2>(to, from, count, d, streaming); break;
    case 3: combine_into<Op, kMean, 3>(to, from, count, d, streaming); break;
    default: combine_into<Op, kMean, 4>(to, from, count, d, streaming); break;
  }
  return true;
}

}  // namespace
}  // namespace lockstep::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
