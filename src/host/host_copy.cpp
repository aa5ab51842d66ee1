#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <lockstep/detail/saturate_cast.hpp>

#include "detail/float_environment.hpp"
#include "detail/loops.hpp"
#include "host/host_convert.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {
namespace {

using detail::Loops;

/// Calls f(out_offset, in_offset) for every run along the innermost axis; offsets in elements.
template <class F>
void for_each_run(const Loops& loops, F&& f) {
  Loops::Strides index{};
  std::int64_t out = 0;
  std::int64_t in = 0;
  while (true) {
    f(out, in);
    int axis = loops.rank - 2;
    for (; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      out += loops.out[i];
      in += loops.in[i];
      if (++index[i] < loops.extents[i]) break;
      out -= loops.out[i] * loops.extents[i];
      in -= loops.in[i] * loops.extents[i];
      index[i] = 0;
    }
    if (axis < 0) return;
  }
}

/// Moving elements depends only on their size: calls f with the unsigned integer of that size.
template <class F>
void dispatch_size(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f.template operator()<std::uint8_t>();
    case 2: return f.template operator()<std::uint16_t>();
    case 4: return f.template operator()<std::uint32_t>();
    default: return f.template operator()<std::uint64_t>();
  }
}

void copy_same_dtype(const Loops& loops, const TensorView& out, const TensorView& in) {
  const auto last = static_cast<std::size_t>(loops.rank) - 1;
  const std::int64_t n = loops.extents[last];
  const std::int64_t out_stride = loops.out[last];
  const std::int64_t in_stride = loops.in[last];
  dispatch_size(out.dtype, [&]<class Bits>() {
    Bits* const to = static_cast<Bits*>(out.data);
    const Bits* const from = static_cast<const Bits*>(in.data);
    for_each_run(loops, [&](std::int64_t o, std::int64_t i) {
      if (out_stride == 1 && in_stride == 1) {
        if (to + o != from + i) std::memcpy(to + o, from + i, static_cast<std::size_t>(n) * sizeof(Bits));
      } else {
        for (std::int64_t k = 0; k < n; ++k) to[o + k * out_stride] = from[i + k * in_stride];
      }
    });
  });
}

template <class A>
void copy_through(const Loops& loops, const TensorView& out, const TensorView& in) {
  const auto last = static_cast<std::size_t>(loops.rank) - 1;
  const std::int64_t out_stride = loops.out[last];
  const std::int64_t in_stride = loops.in[last];
  const auto out_size = static_cast<std::int64_t>(size_of(out.dtype));
  const auto in_size = static_cast<std::int64_t>(size_of(in.dtype));
  A tile[kTile];
  for_each_run(loops, [&](std::int64_t o, std::int64_t i) {
    for_each_tile(loops.extents[last], true, [&](std::int64_t begin, std::int64_t n) {
      widen(static_cast<const std::byte*>(in.data) + (i + begin * in_stride) * in_size, in.dtype, in_stride,
            tile, n);
      narrow(tile, static_cast<std::byte*>(out.data) + (o + begin * out_stride) * out_size, out.dtype,
             out_stride, n);
    });
  });
}

}  // namespace

void HostKernels::fill(const TensorView& out, const Scalar& value, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  const Loops loops(out, out);
  const auto last = static_cast<std::size_t>(loops.rank) - 1;
  const std::int64_t n = loops.extents[last];
  const std::int64_t stride = loops.out[last];
  dispatch(out.dtype, [&]<class T>() {
    const T element = value.as<T>();
    dispatch_size(out.dtype, [&]<class Bits>() {
      if constexpr (sizeof(Bits) == sizeof(T)) {
        const Bits bits = std::bit_cast<Bits>(element);
        Bits* const to = static_cast<Bits*>(out.data);
        for_each_run(loops, [&](std::int64_t o, std::int64_t) {
          if (stride == 1)
            std::fill_n(to + o, n, bits);
          else
            for (std::int64_t k = 0; k < n; ++k) to[o + k * stride] = bits;
        });
      }
    });
  });
}

void HostKernels::copy(const TensorView& out, const TensorView& in, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  const Loops loops(out, in);
  if (out.dtype == in.dtype) return copy_same_dtype(loops, out, in);
  switch (accumulator_dtype(in.dtype)) {
    case DType::f32: return copy_through<float>(loops, out, in);
    case DType::f64: return copy_through<double>(loops, out, in);
    case DType::i64: return copy_through<std::int64_t>(loops, out, in);
    default: return copy_through<std::uint64_t>(loops, out, in);
  }
}

}  // namespace lockstep::host
