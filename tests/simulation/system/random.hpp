#pragma once

#include <cstdint>

#include "detail/splitmix64.hpp"

namespace lockstep::simulation {

/// Numbers that follow from a seed alone.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(detail::splitmix64(seed)) {}

  std::uint64_t next() noexcept { return detail::splitmix64(state_++); }
  /// Below n, which is above 0.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  /// From `first` to `last`, both included.
  std::int64_t between(std::int64_t first, std::int64_t last) noexcept {
    return first + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(last - first) + 1));
  }
  /// True once in `n` times.
  bool once_in(std::uint64_t n) noexcept { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::simulation
