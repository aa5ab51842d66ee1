// Reductions of a few sources in one loop, compiled for each instruction set: like Highway's own "-inl.h"
// files, this one is included once for each set.
#if defined(LOCKSTEP_DIRECT_REDUCTION_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LOCKSTEP_DIRECT_REDUCTION_INL
#undef LOCKSTEP_DIRECT_REDUCTION_INL
#else
#define LOCKSTEP_DIRECT_REDUCTION_INL
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "arithmetic/scaled_sum.hpp"
#include "detail/independent_elements.hpp"
#include "host/collectives/float_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace lockstep::host::HWY_NAMESPACE {
namespace {

using arithmetic::compute_t;

// The mean of element i of all sources, whose sum is not finite. Sources may have misaligned addresses.
template <class T, class Sources>
compute_t<T> mean_of_large(const Sources& sources, std::size_t i) {
  using A = compute_t<T>;
  const A count = static_cast<A>(sources.size());
  arithmetic::ScaledSum<A> scaled(arithmetic::sum_scale(count));
  for (const void* source : sources) {
    T element;
    std::memcpy(&element, static_cast<const std::byte*>(source) + i * sizeof(T), sizeof(T));
    scaled.add(static_cast<A>(element));
  }
  return scaled.over(count);
}

// Computes means of the elements begin to end, some of whose sums are not finite.
template <class T>
HWY_NOINLINE void mean_one_by_one(std::span<T* const> destinations, std::span<const T* const> sources,
                                  std::size_t begin, std::size_t end) {
  using A = compute_t<T>;
  for (std::size_t i = begin; i < end; ++i) {
    A value = static_cast<A>(sources[0][i]);
    for (const T* source : sources.subspan(1)) value += static_cast<A>(source[i]);
    value /= static_cast<A>(sources.size());
    if (!arithmetic::is_finite(value)) value = mean_of_large<T>(sources, i);
    for (T* destination : destinations) destination[i] = static_cast<T>(value);
  }
}

// Divides a sum of K values by K. Reciprocals of powers of two are exact.
template <int K, class D>
HWY_INLINE hn::Vec<D> over_k(D d, hn::Vec<D> sum) {
  if constexpr ((K & (K - 1)) == 0)
    return hn::Mul(sum, hn::Set(d, hn::TFromD<D>{1} / K));
  else
    return hn::Div(sum, hn::Set(d, K));
}

// Element i of K sources, combined; in the second form a pair of vectors of elements from i on.
template <class Op, int K, class T>
HWY_INLINE compute_t<T> combined(const T* const (&s)[5], std::size_t i) {
  using A = compute_t<T>;
  A value = Op::apply(static_cast<A>(s[0][i]), static_cast<A>(s[1][i]));
  if constexpr (K > 2) value = Op::apply(value, static_cast<A>(s[2][i]));
  if constexpr (K > 3) value = Op::apply(value, static_cast<A>(s[3][i]));
  if constexpr (K > 4) value = Op::apply(value, static_cast<A>(s[4][i]));
  return value;
}
template <class Op, bool kMean, int K, class T>
HWY_INLINE Pair<compute_t<T>> combined_pairs(const T* const (&s)[5], std::size_t i) {
  auto value = apply_pairs<Op>(load_pair(s[0] + i), load_pair(s[1] + i));
  if constexpr (K > 2) value = apply_pairs<Op>(value, load_pair(s[2] + i));
  if constexpr (K > 3) value = apply_pairs<Op>(value, load_pair(s[3] + i));
  if constexpr (K > 4) value = apply_pairs<Op>(value, load_pair(s[4] + i));
  const hn::ScalableTag<compute_t<T>> d;
  if constexpr (kMean) value = {over_k<K>(d, value.a), over_k<K>(d, value.b)};
  return value;
}

// True if both vectors are finite; also false if they are finite but their sum is not.
template <class A>
HWY_INLINE bool are_finite(Pair<A> value) {
  const hn::ScalableTag<A> d;
  return hn::AllTrue(d, hn::IsFinite(hn::Add(value.a, value.b)));
}

// Combines the elements from `begin` on, which are fewer than a pair of vectors holds, padded with zeros.
template <class Op, bool kMean, int K, class T>
HWY_NOINLINE void combine_last(std::span<T* const> destinations, const T* const* sources, std::size_t begin,
                               std::size_t n) {
  const std::size_t size_bytes = (n - begin) * sizeof(T);
  T last[K][2 * hn::MaxLanes(hn::ScalableTag<compute_t<T>>())] = {};
  for (int k = 0; k < K; ++k) std::memcpy(last[k], sources[k] + begin, size_bytes);
  const T* const s[5] = {last[0], last[1], last[K > 2 ? 2 : 0], last[K > 3 ? 3 : 0], last[K > 4 ? 4 : 0]};
  const auto value = combined_pairs<Op, kMean, K>(s, 0);
  if constexpr (kMean) {
    if (!are_finite(value)) return mean_one_by_one<T>(destinations, {sources, K}, begin, n);
  }
  store_pair(value, last[0]);
  for (T* destination : destinations) std::memcpy(destination + begin, last[0], size_bytes);
}

// destinations[d] := sources[0] op … op sources[K - 1], divided by K for a mean, for all d < D, in one loop:
// within the caches an all_reduce then takes half the time, and one in place 0.85 of it at any size. A
// destination may be a source, so the compiler must be told that iterations are independent.
// @param size  a std::size_t, or a compile-time constant.
template <class Op, bool kMean, int K, int D, class T, class Size>
HWY_INLINE void combine_elements(T* const* destinations, const T* const* sources, Size size) {
  static_assert(K >= 2 && K <= 5 && (D == 1 || D == K) && D <= 4);
  const std::size_t n = size;
  const T* const s[5] = {sources[0], sources[1], sources[K > 2 ? 2 : 0], sources[K > 3 ? 3 : 0],
                         sources[K > 4 ? 4 : 0]};
  T* const d[4] = {destinations[0], destinations[D > 1 ? 1 : 0], destinations[D > 2 ? 2 : 0],
                   destinations[D > 3 ? 3 : 0]};
  if constexpr (kInLanes<T> || kMean) {
    const std::size_t step = 2 * hn::Lanes(hn::ScalableTag<compute_t<T>>());
    std::size_t i = 0;
    for (; i + step <= n; i += step) {
      const auto value = combined_pairs<Op, kMean, K>(s, i);
      if constexpr (kMean) {
        if (HWY_UNLIKELY(!are_finite(value))) {
          mean_one_by_one<T>({destinations, D}, {sources, K}, i, i + step);
          continue;
        }
      }
      store_pair(value, d[0] + i);
      if constexpr (D > 1) store_pair(value, d[1] + i);
      if constexpr (D > 2) store_pair(value, d[2] + i);
      if constexpr (D > 3) store_pair(value, d[3] + i);
    }
    if (i < n) combine_last<Op, kMean, K>(std::span(destinations, D), sources, i, n);
  } else {
    T *const d0 = d[0], *const d1 = d[1], *const d2 = d[2], *const d3 = d[3];
    LOCKSTEP_INDEPENDENT_ELEMENTS
    for (std::size_t i = 0; i < n; ++i) {
      const T result = static_cast<T>(combined<Op, K>(s, i));
      d0[i] = result;
      if constexpr (D > 1) d1[i] = result;
      if constexpr (D > 2) d2[i] = result;
      if constexpr (D > 3) d3[i] = result;
    }
  }
}
template <class Op, bool kMean, int K, int D, class T>
HWY_NOINLINE void combine_into(T* const* destinations, const T* const* sources, std::size_t n) {
  combine_elements<Op, kMean, K, D>(destinations, sources, n);
}

constexpr std::size_t kLineBytes = 64;

// Elements between the start of a cache line and `destination`: blocks that end at line ends are streamed as
// whole lines.
template <class T>
std::size_t elements_into_line(const void* destination) {
  return reinterpret_cast<std::uintptr_t>(destination) % kLineBytes / sizeof(T);
}

// Streams a few lines if they are whole ones.
template <std::size_t kSizeBytes>
HWY_INLINE void stream_lines(void* destination, const void* lines) {
  if (reinterpret_cast<std::uintptr_t>(destination) % kLineBytes != 0) {
    std::memcpy(destination, lines, kSizeBytes);
    return;
  }
  const hn::CappedTag<std::uint8_t, kLineBytes> d;
  const auto* from = static_cast<const std::uint8_t*>(lines);
  auto* to = static_cast<std::uint8_t*>(destination);
  for (std::size_t i = 0; i < kSizeBytes; i += hn::Lanes(d)) hn::Stream(hn::Load(d, from + i), d, to + i);
}

// The same with streaming stores, a few lines at a time: each line occupies a store buffer until it is full,
// so lines of several destinations must not alternate vector by vector.
template <class Op, bool kMean, int K, class T>
void stream_into(std::span<T* const> destinations, const T* const* sources, std::size_t n) {
  constexpr std::size_t kStep = 4 * kLineBytes / sizeof(T);
  alignas(kLineBytes) T block[kStep];
  T* const to = block;
  const std::size_t into_line = elements_into_line<T>(destinations[0]);
  std::size_t size = into_line == 0 ? kStep : kLineBytes / sizeof(T) - into_line;
  for (std::size_t i = 0; i < n; i += size, size = kStep) {
    size = std::min(size, n - i);
    const T* from[K];
    for (int k = 0; k < K; ++k) from[k] = sources[k] + i;
    if (HWY_LIKELY(size == kStep)) {
      combine_elements<Op, kMean, K, 1>(&to, from, std::integral_constant<std::size_t, kStep>());
      for (T* destination : destinations) stream_lines<sizeof(block)>(destination + i, block);
    } else {
      combine_into<Op, kMean, K, 1>(&to, from, size);
      for (T* destination : destinations) std::memcpy(destination + i, block, size * sizeof(T));
    }
  }
}

template <class Op, bool kMean, int K, class T>
void combine_into(std::span<T* const> destinations, const T* const* sources, std::size_t n, bool streaming) {
  if (streaming)
    stream_into<Op, kMean, K>(destinations, sources, n);
  else if (destinations.size() == 1)
    combine_into<Op, kMean, K, 1>(destinations.data(), sources, n);
  else
    combine_into<Op, kMean, K, K>(destinations.data(), sources, n);
}

// Reduces two to four sources to one destination or to as many, if all are aligned to their element size.
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
  const std::span<T* const> results(to, d);
  switch (k) {
    case 2: combine_into<Op, kMean, 2, T>(results, from, count, streaming); break;
    case 3: combine_into<Op, kMean, 3, T>(results, from, count, streaming); break;
    default: combine_into<Op, kMean, 4, T>(results, from, count, streaming); break;
  }
  return true;
}

}  // namespace
}  // namespace lockstep::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
