#pragma once

#include <type_traits>

namespace lockstep::cuda {

/// The 16 bytes from byte `shift` of a pair of vectors on. @param shift  1 to 15, equal in all threads.
__device__ __forceinline__ uint4 from_pair(const uint4& low, const uint4& high, int shift) {
  const unsigned words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  const auto from = [&](auto first) {
    constexpr int k = decltype(first)::value;
    const int bits = shift % 4 * 8;
    const auto word = [&](int j) { return __funnelshift_r(words[k + j], words[k + j + 1], bits); };
    return uint4{word(0), word(1), word(2), word(3)};
  };
  switch (shift / 4) {
    case 0: return from(std::integral_constant<int, 0>());
    case 1: return from(std::integral_constant<int, 1>());
    case 2: return from(std::integral_constant<int, 2>());
    default: return from(std::integral_constant<int, 3>());
  }
}

}  // namespace lockstep::cuda
