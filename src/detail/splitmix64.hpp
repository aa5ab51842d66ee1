#pragma once

#include <cstdint>

namespace lockstep::detail {

/// A step of SplitMix64 (Steele, Lea and Flood 2014): neighbouring inputs give unrelated outputs.
constexpr std::uint64_t splitmix64(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace lockstep::detail
