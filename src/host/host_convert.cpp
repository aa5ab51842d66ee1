#include "host/host_convert.hpp"

#include <concepts>
#include <lockstep/detail/saturate_cast.hpp>

namespace lockstep::host {

template <class A>
void widen(const void* in, DType dtype, std::int64_t stride, A* out, std::int64_t n) {
  dispatch(dtype, [&]<class T>() {
    if constexpr (std::same_as<accumulator_t<T>, A>) {
      const T* const from = static_cast<const T*>(in);
      if (stride == 1) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<A>(from[i]);
      } else {
        for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<A>(from[i * stride]);
      }
    }
  });
}

template <class A>
void narrow(const A* in, void* out, DType dtype, std::int64_t stride, std::int64_t n) {
  dispatch(dtype, [&]<class T>() {
    T* const to = static_cast<T*>(out);
    if (stride == 1) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = detail::saturate_cast<T>(in[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i * stride] = detail::saturate_cast<T>(in[i]);
    }
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
