#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <lockstep/tensor.hpp>
#include <lockstep/values/per_replica.hpp>

#include "support/replica_values.hpp"

/// Arguments and results of functions of a strategy.
namespace lockstep::test {

using Values = std::vector<float>;

/// Calls enough for each phase of a signature: the first one, the trace, and two launches.
inline constexpr int kCalls = 4;

inline int some_replicas() { return std::min(3, TestBackend::num_devices()); }

/// Replica i's vector in a step.
inline PerReplica<Tensor> batch(int n, int step, std::int64_t size = 5) {
  std::vector<Values> values;
  for (int i = 0; i < n; ++i)
    values.push_back(Values(static_cast<std::size_t>(size), static_cast<float>(10 * step + i + 1)));
  return vectors(values);
}

inline std::vector<Values> all_values(const PerReplica<Tensor>& value) {
  std::vector<Values> all;
  for (const Tensor& component : value) all.push_back(component.to_vector<float>());
  return all;
}

}  // namespace lockstep::test
