#pragma once

#include <bit>
#include <cstddef>

#include <cuda_runtime.h>

namespace lockstep::cuda {

/// The element that begins at byte `at` of shared memory. @param aligned  `at` is a multiple of its size.
template <class T>
__device__ __forceinline__ T load_staged_element(const uint4* staged, int at, bool aligned) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(staged) + at;
  if (aligned || sizeof(T) == 1) return *reinterpret_cast<const T*>(bytes);
  struct Bytes {
    unsigned char bytes[sizeof(T)];
  } copy;
  // Volatile: else the compiler joins both cases to a load of an aligned element.
#pragma unroll
  for (std::size_t i = 0; i < sizeof(T); ++i)
    copy.bytes[i] = static_cast<const volatile unsigned char*>(bytes)[i];
  return std::bit_cast<T>(copy);
}

template <class T>
__device__ __forceinline__ void store_staged_element(uint4* staged, int at, T element, bool aligned) {
  auto* const bytes = reinterpret_cast<unsigned char*>(staged) + at;
  if (aligned || sizeof(T) == 1) {
    *reinterpret_cast<T*>(bytes) = element;
    return;
  }
  struct Bytes {
    unsigned char bytes[sizeof(T)];
  };
  const auto copy = std::bit_cast<Bytes>(element);
#pragma unroll
  for (std::size_t i = 0; i < sizeof(T); ++i) static_cast<volatile unsigned char*>(bytes)[i] = copy.bytes[i];
}

}  // namespace lockstep::cuda
