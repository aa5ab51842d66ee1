#pragma once

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "support/worker_processes.hpp"

/// Strategies of WorkerProcesses, of which some start and others join them.
namespace lockstep::test {

using Workers = MultiWorkerMirroredStrategy;

inline constexpr int kPassed = 3;

inline void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// The cluster's addresses, of which the first are those that start.
inline std::vector<std::string> addresses() {
  std::vector<std::string> all;
  for (const auto& [index, address] : cluster::from_environment()->cluster_spec().tasks("worker"))
    all.push_back(address);
  return all;
}

inline WorkerOptions worker_options(int num_devices = 1) {
  WorkerOptions options{.heartbeat_timeout = std::chrono::milliseconds(2000)};
  for (int i = 0; i < num_devices; ++i) options.devices.emplace_back(DeviceKind::cpu, i);
  return options;
}

/// As worker `worker` of a cluster of the first so many.
inline std::unique_ptr<Workers> start(int worker, int num_workers,
                                      const WorkerOptions& options = worker_options()) {
  std::vector<std::string> first = addresses();
  first.resize(static_cast<std::size_t>(num_workers));
  return std::make_unique<Workers>(std::make_shared<cluster::SimpleResolver>(
                                       cluster::ClusterSpec{{"worker", first}},
                                       cluster::ResolverOptions{.task_type = "worker", .task_id = worker}),
                                   CommunicationOptions{}, options);
}

inline std::unique_ptr<Workers> join(int worker, const WorkerOptions& options = worker_options()) {
  return Workers::join(addresses()[0], {}, options, addresses()[static_cast<std::size_t>(worker)]);
}

/// Of the value, over all replicas.
inline float sum(Workers& strategy, float value) {
  const auto all = strategy.run(
      [&](ReplicaContext& context) { return context.all_reduce(ReduceOp::sum, Tensor::scalar(value)); });
  return all[0].item<float>();
}

inline void check_passed(const std::vector<WorkerResult>& results) {
  for (const WorkerResult& result : results) {
    CAPTURE(result.output);
    CHECK(result.status == kPassed);
  }
}

}  // namespace lockstep::test
