#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/dtype.hpp>

/// Inputs, and closed forms of their results. Values are small whole numbers, exact in every dtype, so that
/// results are compared with ==.
namespace lockstep::test {

/// 0 + 1 + … + (n - 1).
constexpr std::int64_t triangular(std::int64_t n) { return n * (n - 1) / 2; }

/// Element i of a tensor on a replica: 0 … 3, shifted by one for each replica and each element. For a
/// boolean: odd or even.
template <Element T>
T pattern(std::int64_t i, int replica = 0) {
  const int value = static_cast<int>((i + replica) % 4);
  if constexpr (std::same_as<T, bool>)
    return value % 2 != 0;
  else
    return static_cast<T>(value);
}

/// The first n elements of `pattern`.
template <Element T>
std::vector<T> pattern_values(std::int64_t n, int replica = 0) {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) values.push_back(pattern<T>(i, replica));
  return values;
}

/// The sum of `pattern(i, r)` over replicas 0 … n - 1: a full turn of four sums to 6.
constexpr int pattern_sum_over_replicas(std::int64_t i, int num_replicas) {
  int sum = num_replicas / 4 * 6;
  for (int r = 0; r < num_replicas % 4; ++r) sum += static_cast<int>((i + r) % 4);
  return sum;
}

}  // namespace lockstep::test
