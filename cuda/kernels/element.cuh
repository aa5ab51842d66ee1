#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <lockstep/dtype.hpp>

#include "arithmetic/operators.hpp"

namespace lockstep::cuda {

using arithmetic::compute_t;

/// Converts a T to the type in which it is computed; small floats by the hardware's conversions.
template <class T>
__device__ __forceinline__ compute_t<T> widen(T value) {
  if constexpr (std::same_as<T, f16>)
    return __half2float(__ushort_as_half(value.bits));
  else if constexpr (std::same_as<T, bf16>)
    return __uint_as_float(std::uint32_t{value.bits} << 16);
  else if constexpr (std::same_as<T, f8e5m2>)  // a half's upper bits
    return __half2float(__ushort_as_half(static_cast<std::uint16_t>(value.bits << 8)));
  else if constexpr (std::same_as<T, f8e4m3>) {
    // Moves the fields to a half's places. A half's exponent bias is larger by 8.
    const std::uint32_t magnitude = value.bits & 0x7f;
    const auto half = static_cast<std::uint16_t>((value.bits & 0x80) << 8 | magnitude << 7);
    const float number = __half2float(__ushort_as_half(half)) * 256;
    return magnitude == 0x7f ? __uint_as_float(0x7fc00000) : number;
  } else
    return static_cast<compute_t<T>>(value);
}

/// Converts back, rounded once, to nearest, ties to even.
template <class T>
__device__ __forceinline__ T narrow(compute_t<T> value) {
  if constexpr (std::same_as<T, f16>)
    return f16::from_bits(__half_as_ushort(__float2half_rn(value)));
  else if constexpr (std::same_as<T, bf16>)
    return bf16::from_bits(__bfloat16_as_ushort(__float2bfloat16_rn(value)));
  else if constexpr (std::same_as<T, f8e5m2>) {
    // First to a half, rounded to odd, so that rounding that to its upper bits is the only rounding.
    const __half cut = __float2half_rz(value);
    const unsigned bits = __half_as_ushort(cut) | (__half2float(cut) != value ? 1u : 0u);
    const unsigned rounded = (bits + 0x7f + (bits >> 8 & 1)) >> 8;
    return f8e5m2::from_bits(static_cast<std::uint8_t>(value != value ? 0x7f : rounded));
  } else
    return static_cast<T>(value);
}

/// kCount elements that are loaded and stored together.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Vector {
  T elements[kCount];
};

/// Elements [i, i + kCount) of an array of Ts, in one access, or byte by byte at an address that is no
/// multiple of their size: an engine's buffer may start anywhere.
/// @pre kCount > 1: the address is a multiple of kCount * sizeof(T).
template <class T, int kCount>
__device__ __forceinline__ Vector<T, kCount> load(const void* array, std::int64_t i, bool aligned) {
  const T* const address = static_cast<const T*>(array) + i;
  if (kCount > 1 || aligned) return *reinterpret_cast<const Vector<T, kCount>*>(address);
  Vector<T, kCount> result;
  memcpy(&result, reinterpret_cast<const unsigned char*>(address), sizeof(T));
  return result;
}
template <class T, int kCount>
__device__ __forceinline__ void store(void* array, std::int64_t i, const Vector<T, kCount>& vector,
                                      bool aligned) {
  T* const address = static_cast<T*>(array) + i;
  if (kCount > 1 || aligned)
    *reinterpret_cast<Vector<T, kCount>*>(address) = vector;
  else
    memcpy(reinterpret_cast<unsigned char*>(address), &vector, sizeof(T));
}

/// The number of Ts in a 16-byte load.
template <class T>
inline constexpr int kPer16Bytes = static_cast<int>(16 / sizeof(T));

/// Whether all addresses are multiples of `alignment`.
template <class... Addresses>
bool are_multiples(std::size_t alignment, Addresses... addresses) {
  return ((reinterpret_cast<std::uintptr_t>(addresses) % alignment == 0) && ...);
}

}  // namespace lockstep::cuda
