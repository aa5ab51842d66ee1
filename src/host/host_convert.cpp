#include "host/host_convert.hpp"

#include <concepts>
#include <cstddef>
#include <cstring>

#include <lockstep/detail/saturate_cast.hpp>

namespace lockstep::host {

namespace {

// Elements may be misaligned: they may lie in an engine's buffer, or in a pack of several buffers.
template <class To, class From>
[[gnu::always_inline]] inline void convert_run(const From* in, To* out, std::int64_t n) {
  const auto* const from = reinterpret_cast<const std::byte*>(in);
  auto* const to = reinterpret_cast<std::byte*>(out);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    From value;
    std::memcpy(&value, from + i * sizeof(From), sizeof(From));
    const To converted = detail::saturate_cast<To>(value);
    std::memcpy(to + i * sizeof(To), &converted, sizeof(To));
  }
}

// Small floats are decoded with integer instructions, of which AVX2 executes twice as many, and better ones.
// The source is the same, and so are the results.
#if defined(__x86_64__)
template <class To, class From>
[[gnu::target("avx2")]] void convert_run_avx2(const From* in, To* out, std::int64_t n) {
  convert_run(in, out, n);
}

const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

template <class T>
constexpr bool kIsSmallFloat = !std::integral<T> && sizeof(T) < 4;

template <class To, class From>
void convert_contiguous(const From* in, To* out, std::int64_t n) {
#if defined(__x86_64__)
  if constexpr (kIsSmallFloat<To> || kIsSmallFloat<From>) {
    if (has_avx2) return convert_run_avx2(in, out, n);
  }
#endif
  convert_run(in, out, n);
}

}  // namespace

template <class A>
void widen(const void* in, DType dtype, std::int64_t stride, A* out, std::int64_t n) {
  dispatch(dtype, [&]<class T>() {
    if constexpr (std::same_as<accumulator_t<T>, A>) {
      const T* const from = static_cast<const T*>(in);
      if (stride == 1) return convert_contiguous(from, out, n);
      for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<A>(from[i * stride]);
    }
  });
}

template <class A>
void narrow(const A* in, void* out, DType dtype, std::int64_t stride, std::int64_t n) {
  dispatch(dtype, [&]<class T>() {
    T* const to = static_cast<T*>(out);
    if (stride == 1) return convert_contiguous(in, to, n);
    for (std::int64_t i = 0; i < n; ++i) to[i * stride] = detail::saturate_cast<T>(in[i]);
  });
}

template void widen(const void*, DType, std::int64_t, float*, std::int64_t);
template void widen(const void*, DType, std::int64_t, double*, std::int64_t);
template void widen(const void*, DType, std::int64_t, std::int64_t*, std::int64_t);
template void widen(const void*, DType, std::int64_t, std::uint64_t*, std::int64_t);
template void narrow(const float*, void*, DType, std::int64_t, std::int64_t);
template void narrow(const double*, void*, DType, std::int64_t, std::int64_t);
template void narrow(const std::int64_t*, void*, DType, std::int64_t, std::int64_t);
template void narrow(const std::uint64_t*, void*, DType, std::int64_t, std::int64_t);

}  // namespace lockstep::host
