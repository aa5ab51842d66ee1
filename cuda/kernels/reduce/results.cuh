#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/dtype.hpp>

#include "arithmetic/scaled_sum.hpp"
#include "arithmetic/wide_quotient.hpp"
#include "kernels/element.cuh"
#include "kernels/reduce/accumulate.cuh"

namespace lockstep::cuda {

/// The results' array: they are divided by `divisor` and written as `dtype`.
struct ReduceOutput {
  void* data;
  DType dtype;
  double divisor;
  bool aligned;  ///< `data` is a multiple of 16 bytes.
};

template <class To, class From>
__device__ void store_converted(void* data, std::int64_t index, From value) {
  To converted;
  if constexpr (std::same_as<compute_t<To>, From>)
    converted = narrow<To>(value);
  else
    converted = detail::saturate_cast<To>(value);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % sizeof(To) == 0;
  store<To, 1>(data, index, {converted}, aligned);
}

template <class A>
__device__ void store_as(DType dtype, void* data, std::int64_t index, A value) {
  switch (dtype) {
    case DType::f32: return store_converted<float>(data, index, value);
    case DType::f64: return store_converted<double>(data, index, value);
    default: break;
  }
  if constexpr (std::same_as<A, float>) {
    switch (dtype) {
      case DType::f16: return store_converted<f16>(data, index, value);
      case DType::bf16: return store_converted<bf16>(data, index, value);
      case DType::f8e4m3: return store_converted<f8e4m3>(data, index, value);
      case DType::f8e5m2: return store_converted<f8e5m2>(data, index, value);
      default: break;
    }
  } else {
    switch (dtype) {
      case DType::i8: return store_converted<std::int8_t>(data, index, value);
      case DType::i16: return store_converted<std::int16_t>(data, index, value);
      case DType::i32: return store_converted<std::int32_t>(data, index, value);
      case DType::i64: return store_converted<std::int64_t>(data, index, value);
      case DType::u8: return store_converted<std::uint8_t>(data, index, value);
      case DType::u16: return store_converted<std::uint16_t>(data, index, value);
      case DType::u32: return store_converted<std::uint32_t>(data, index, value);
      case DType::u64: return store_converted<std::uint64_t>(data, index, value);
      default: break;
    }
  }
}

/// Not inlined: every kernel writes a few results, and there are many kernels.
template <class A>
__device__ __noinline__ void store_result(const ReduceOutput& out, std::int64_t index, A value) {
  if (out.divisor == 1)
    store_as(out.dtype, out.data, index, value);
  else if constexpr (std::integral<A>)
    store_as(out.dtype, out.data, index, arithmetic::wide_quotient(value, out.divisor));
  else if (std::same_as<A, float> && out.dtype == DType::f64)
    store_as(out.dtype, out.data, index, static_cast<double>(value) / out.divisor);
  else
    store_as(out.dtype, out.data, index, value / static_cast<A>(out.divisor));
}

/// The elements of one result, at a distance of `stride` bytes.
struct ElementRun {
  const std::byte* begin;
  std::int64_t stride;
  std::int64_t size;
  std::int64_t place;  ///< The first one's along the axis.
};

/// The quotient of a sum that is not finite, from its elements. One thread does it: overflow is rare, and a
/// run is a part of an axis at most.
template <class T>
__device__ __noinline__ double quotient_of_large(const ElementRun& run, double divisor) {
  arithmetic::ScaledSum<double> sum(0x1p63);
#pragma unroll 1
  for (std::int64_t i = 0; i < run.size; ++i)
    sum.add(widen(load<T, 1>(run.begin + i * run.stride, 0, false).elements[0]));
  return sum.over(divisor);
}

/// Writes the result of the elements of `run`.
template <class Op, class T, class A>
__device__ void store_result_of(const ReduceOutput& out, std::int64_t index, A value, const ElementRun& run) {
  if constexpr (std::same_as<Op, arithmetic::Sum> && !std::integral<T> &&
                std::numeric_limits<T>::max_exponent >= 128) {
    if (!arithmetic::is_finite(value)) {
      const double quotient = quotient_of_large<T>(run, out.divisor);
      if (std::same_as<A, float> && out.dtype == DType::f64)
        return store_as(out.dtype, out.data, index, quotient);
      if (out.divisor != 1) return store_as(out.dtype, out.data, index, static_cast<A>(quotient));
    }
  }
  store_result(out, index, value);
}

/// The j-th of adjacent results in its own dtype. Not inlined, as above. @param run  the first one's
/// elements.
template <class T, class A>
__device__ __noinline__ T quotient_of(A value, double divisor, const ElementRun& run, int j) {
  if constexpr (std::numeric_limits<T>::max_exponent >= 128)
    if (!arithmetic::is_finite(value)) {
      const ElementRun own{run.begin + j * sizeof(T), run.stride, run.size, run.place};
      return narrow<T>(static_cast<A>(quotient_of_large<T>(own, divisor)));
    }
  return narrow<T>(value / static_cast<A>(divisor));
}

/// Whether threads write 16 bytes of adjacent results each.
template <class Op, class T>
__device__ bool writes_vectors(const ReduceOutput& out, std::int64_t inner) {
  if (!std::is_arithmetic_v<accumulator_of<Op, T>>) return false;
  constexpr bool kDivides = std::same_as<Op, arithmetic::Sum> && !std::integral<T>;
  return out.dtype == dtype_of<T> && (kDivides || out.divisor == 1) && out.aligned &&
         inner % kPer16Bytes<T> == 0;
}

/// Writes adjacent results. `run` has the elements of the first. @pre writes_vectors
template <class Op, class T, class B>
__device__ void store_vector(const ReduceOutput& out, std::int64_t index, const B (&values)[kPer16Bytes<T>],
                             const ElementRun& run) {
  if constexpr (std::is_arithmetic_v<B>) {
    Elements<T> results;
#pragma unroll
    for (int j = 0; j < kPer16Bytes<T>; ++j) {
      if constexpr (std::same_as<Op, arithmetic::Sum> && !std::integral<T>)
        results.elements[j] = out.divisor != 1 ? quotient_of<T>(values[j], out.divisor, run, j)
                                               : narrow<T>(static_cast<compute_t<T>>(values[j]));
      else
        results.elements[j] = narrow<T>(static_cast<compute_t<T>>(values[j]));
    }
    // In one instruction, which the compiler does not find by itself.
    __stwb(reinterpret_cast<uint4*>(static_cast<T*>(out.data) + index), std::bit_cast<uint4>(results));
  }
}

}  // namespace lockstep::cuda
