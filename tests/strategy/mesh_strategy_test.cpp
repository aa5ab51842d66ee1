#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/mesh_strategy.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

namespace {

using Places = std::vector<std::vector<int>>;

/// A line of each task's devices, one task after the other.
Topology line(int num_tasks, int num_devices_per_task, DeviceKind kind = DeviceKind::cpu) {
  std::vector<Places> coordinates(static_cast<std::size_t>(num_tasks));
  for (int i = 0; i < num_tasks * num_devices_per_task; ++i)
    coordinates[static_cast<std::size_t>(i / num_devices_per_task)].push_back({i});
  return {{num_tasks * num_devices_per_task}, coordinates, kind};
}

DeviceAssignment on_task(int task) {  // of two tasks with four devices each: two replicas of two
  const int first = 4 * task;
  return {line(2, 4), {Places{{first}, {first + 1}}, Places{{first + 2}, {first + 3}}}};
}

std::shared_ptr<cluster::Resolver> worker(int index, int num_workers = 2,
                                          const cluster::Accelerators& accelerators = {}) {
  std::vector<std::string> addresses;
  for (int i = 0; i < num_workers; ++i) addresses.push_back("host:" + std::to_string(i));
  return std::make_shared<cluster::SimpleResolver>(
      cluster::ClusterSpec{{"worker", addresses}},
      cluster::ResolverOptions{.task_type = "worker", .task_id = index, .num_accelerators = accelerators});
}

}  // namespace

TEST_CASE("a mesh strategy has its assignment's replicas and logical devices", "[mesh][host]") {
  const DeviceAssignment assignment = DeviceAssignment::build(
      line(1, 8), {.computation_shape = {2}, .computation_stride = {2}, .num_replicas = 3});
  MeshStrategy mesh(assignment);
  CHECK(mesh.num_replicas_in_sync() == 3);
  CHECK(mesh.num_logical_devices() == 2);
  CHECK(mesh.device_assignment() == assignment);
  CHECK(mesh.cluster_resolver() == nullptr);
  CHECK(mesh.extended().worker_devices() == std::vector<Device>{"CPU:0", "CPU:1", "CPU:4"});
  const auto guard = mesh.extended().logical_device(1);
  CHECK(mesh.extended().worker_devices() == std::vector<Device>{"CPU:2", "CPU:3", "CPU:6"});
}

TEST_CASE("a mesh strategy counts hosts, and replicas that have room on one", "[mesh][host]") {
  const auto per_host = [](int num_devices, int num_cores, int num_replicas) {
    const MeshStrategy mesh(DeviceAssignment::build(
        line(1, num_devices), {.computation_shape = {num_cores}, .num_replicas = num_replicas}));
    CHECK(mesh.num_hosts() == 1);
    return mesh.num_replicas_per_host();
  };
  CHECK(per_host(8, 2, 4) == 4);
  CHECK(per_host(8, 2, 3) == 3);
  CHECK(per_host(7, 3, 2) == 2);
  CHECK(MeshStrategy(on_task(0)).num_hosts() == 1);
  CHECK(MeshStrategy(on_task(0)).num_replicas_per_host() == 2);
}

TEST_CASE("without an assignment every local device is a replica", "[mesh][host]") {
  const auto check = [](MeshStrategy& mesh) {
    CHECK(mesh.extended().worker_devices() == MirroredStrategy().extended().worker_devices());
    CHECK(mesh.num_logical_devices() == 1);
    CHECK_FALSE(mesh.device_assignment().has_value());
    CHECK(mesh.num_hosts() == 1);
    CHECK(mesh.num_replicas_per_host() == mesh.num_replicas_in_sync());
  };
  MeshStrategy plain;
  check(plain);
  MeshStrategy without_resolver(nullptr, std::nullopt, {});
  check(without_resolver);
  CHECK(without_resolver.cluster_resolver() == nullptr);
  const auto resolver = worker(0, 1);
  MeshStrategy single(resolver);
  check(single);
  CHECK(single.cluster_resolver() == resolver);
  const auto empty = std::make_shared<cluster::SimpleResolver>(cluster::ClusterSpec{});
  MeshStrategy alone(empty);
  check(alone);
  CHECK(alone.cluster_resolver() == empty);
}

TEST_CASE("without an assignment the resolver's GPUs are the replicas", "[mesh][host]") {
  const auto resolver = worker(0, 1, {{"GPU", 1000}});
  CHECK_THROWS_MATCHES(MeshStrategy(resolver), NotFound, says("GPU"));
  const auto alone = std::make_shared<cluster::SimpleResolver>(
      cluster::ClusterSpec{}, cluster::ResolverOptions{.num_accelerators = {{"GPU", 1000}}});
  CHECK_THROWS_MATCHES(MeshStrategy(alone), NotFound, says("GPU"));
}

TEST_CASE("a resolver says which task of the topology this process is", "[mesh][host]") {
  const auto second = worker(1);
  MeshStrategy mesh(second, on_task(1));
  CHECK(mesh.cluster_resolver() == second);
  CHECK(mesh.extended().worker_devices() == std::vector<Device>{"CPU:0", "CPU:2"});
  CHECK(mesh.num_hosts() == 1);
  const auto guard = mesh.extended().logical_device(1);
  CHECK(mesh.extended().worker_devices() == std::vector<Device>{"CPU:1", "CPU:3"});
}

TEST_CASE("a mesh strategy refuses devices of another task", "[mesh][host]") {
  CHECK_THROWS_MATCHES(MeshStrategy(on_task(1)), ContextError,
                       says("MeshStrategy", "task:1/device:CPU:0", "belongs to another task"));
  CHECK_THROWS_MATCHES(MeshStrategy(worker(1), on_task(0)), ContextError,
                       says("/job:worker/replica:0/task:0/device:CPU:0", "belongs to another task"));
  CHECK_THROWS_MATCHES(MeshStrategy(worker(0), DeviceAssignment::build(line(2, 1), {.num_replicas = 2})),
                       ContextError, says("/job:worker/replica:0/task:1/device:CPU:0"));
  CHECK_THROWS_MATCHES(MeshStrategy(worker(0)), ContextError,
                       says("MeshStrategy: without an assignment", "2 tasks", "worker 0"));
}

TEST_CASE("an evaluator that its cluster does not list has its own devices", "[mesh][host]") {
  const auto evaluator = std::make_shared<cluster::SimpleResolver>(
      cluster::ClusterSpec{{"chief", {"c:1"}}, {"worker", {"w:1"}}},
      cluster::ResolverOptions{.task_type = "evaluator", .task_id = 0});
  CHECK(MeshStrategy(evaluator).num_replicas_in_sync() >= 1);
  CHECK(MeshStrategy(evaluator, on_task(0)).extended().worker_devices() ==
        std::vector<Device>{"CPU:0", "CPU:2"});
}

TEST_CASE("a mesh strategy needs to know which task of a cluster it is in", "[mesh][host]") {
  const auto resolver =
      std::make_shared<cluster::SimpleResolver>(cluster::ClusterSpec{{"worker", {"a:1"}}, {"ps", {"b:1"}}});
  CHECK_THROWS_MATCHES(MeshStrategy(resolver), InvalidArgument, says("MeshStrategy", "which of its tasks"));
  resolver->set_task_type("worker");
  CHECK_THROWS_MATCHES(MeshStrategy(resolver, on_task(0)), InvalidArgument, says("which of its tasks"));
  resolver->set_task_id(7);
  CHECK_THROWS_AS(MeshStrategy(resolver, on_task(0)), InvalidArgument);
  resolver->set_task_type("ps");
  resolver->set_task_id(0);
  CHECK_THROWS_MATCHES(MeshStrategy(resolver), InvalidArgument, says("ps"));
  CHECK_THROWS_MATCHES(MeshStrategy(resolver, on_task(0)), InvalidArgument, says("ps"));
}

TEST_CASE("a mesh strategy refuses options that are out of range", "[mesh][host]") {
  CHECK_THROWS_AS(MeshStrategy(on_task(0), {.bytes_per_pack = -1}), InvalidArgument);
}
