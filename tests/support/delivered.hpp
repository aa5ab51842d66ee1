#pragma once

#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/values/per_replica.hpp>

#include "support/input.hpp"

/// Reads the values that replicas are given.
namespace lockstep::test {

/// The components of an i64 value; checks that each is an i64 on its replica's device.
inline std::vector<Values> delivered(const PerReplica<Tensor>& value, const std::vector<Device>& devices) {
  REQUIRE(value.size() == static_cast<int>(devices.size()));
  for (int replica = 0; replica < value.size(); ++replica) {
    CHECK(value[replica].dtype() == DType::i64);
    CHECK(value[replica].device() == devices[static_cast<std::size_t>(replica)]);
  }
  return components(value);
}

/// Each step's components, checked likewise.
inline std::vector<std::vector<Values>> delivered(const DistributedDataset<PerReplica<Tensor>>& dataset,
                                                  const std::vector<Device>& devices) {
  std::vector<std::vector<Values>> steps;
  for (const PerReplica<Tensor>& value : dataset) steps.push_back(delivered(value, devices));
  return steps;
}

}  // namespace lockstep::test
