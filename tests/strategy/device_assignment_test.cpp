#include <limits>
#include <set>
#include <type_traits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/strategy/device_assignment.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

namespace {

using Assignment = std::vector<std::vector<std::vector<int>>>;

// A device of one task at every place, in row-major order.
Topology full(const std::vector<int>& mesh) {
  std::vector<std::vector<int>> devices{{}};
  for (const int size : mesh) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& device : devices) {
      for (int i = 0; i < size; ++i) {
        longer.push_back(device);
        longer.back().push_back(i);
      }
    }
    devices = std::move(longer);
  }
  return {mesh, {devices}};
}

Assignment coordinates_of(const DeviceAssignment& assignment) {
  Assignment coordinates;
  for (int replica = 0; replica < assignment.num_replicas(); ++replica) {
    coordinates.emplace_back();
    for (int core = 0; core < assignment.num_cores_per_replica(); ++core)
      coordinates.back().push_back(assignment.coordinates(replica, core));
  }
  return coordinates;
}

Assignment built(const std::vector<int>& mesh, const AssignmentOptions& options) {
  return coordinates_of(DeviceAssignment::build(full(mesh), options));
}

}  // namespace

TEST_CASE("assignment-explicit: one core, one replica", "[mesh][host]") {
  const DeviceAssignment assignment(full({1, 1, 1, 1}), {{{0, 0, 0, 0}}});
  CHECK(assignment.num_replicas() == 1);
  CHECK(assignment.num_cores_per_replica() == 1);
  CHECK(assignment.coordinates(0, 0) == std::vector{0, 0, 0, 0});
  CHECK(assignment.device() == "/task:0/device:GPU:0");
  CHECK(assignment.host_device() == "/task:0/device:CPU:0");
  const DeviceAssignment on_host(Topology({1}, {{{0}}}, DeviceKind::cpu), {{{0}}});
  CHECK(on_host.device() == "/task:0/device:CPU:0");
}

TEST_CASE("assignment-pairs: replicas of two neighbours", "[mesh][host]") {
  CHECK(built({8}, {.computation_shape = {2}, .num_replicas = 4}) ==
        Assignment{{{0}, {1}}, {{2}, {3}}, {{4}, {5}}, {{6}, {7}}});
}

TEST_CASE("assignment-stride: a stride's gaps go to the next replica", "[mesh][host]") {
  CHECK(built({8}, {.computation_shape = {2}, .computation_stride = {2}, .num_replicas = 4}) ==
        Assignment{{{0}, {2}}, {{1}, {3}}, {{4}, {6}}, {{5}, {7}}});
}

TEST_CASE("assignment-errors: replicas that do not fit, and wrong forms", "[mesh][host]") {
  const Topology topology = full({4, 2});
  const auto build = [&](const AssignmentOptions& options) {
    return DeviceAssignment::build(topology, options);
  };
  CHECK_THROWS_MATCHES(build({.computation_shape = {1, 1}, .num_replicas = 9}), InvalidArgument,
                       says("9 replicas do not fit in the mesh [4, 2]", "room for 8"));
  CHECK_THROWS_MATCHES(build({.computation_shape = {5, 1}}), InvalidArgument,
                       says("5 logical cores with stride 1 on axis 0 does not fit in the mesh [4, 2]"));
  CHECK_THROWS_MATCHES(build({.computation_shape = {0, 1}}), InvalidArgument,
                       says("computation_shape [0, 1] has the entry 0"));
  CHECK_THROWS_MATCHES(build({.computation_shape = {2}}), InvalidArgument,
                       says("computation_shape [2] has 1 entries", "mesh [4, 2] has rank 2"));
  // A core assignment of rank 2 does not compile; what a list of rank 3 can still get wrong is below.
  STATIC_REQUIRE_FALSE(
      std::is_constructible_v<DeviceAssignment, const Topology&, std::vector<std::vector<int>>>);
  STATIC_REQUIRE(std::is_constructible_v<DeviceAssignment, const Topology&, Assignment>);
  CHECK_THROWS_MATCHES(DeviceAssignment(topology, Assignment{{{0}}}), InvalidArgument,
                       says("logical core 0 of replica 0 at (0) has 1 coordinates", "rank 2"));
}

TEST_CASE("the assignments of the specification's table", "[mesh][host]") {
  CHECK(built({8}, {.computation_shape = {4}, .num_replicas = 2}) ==
        Assignment{{{0}, {1}, {2}, {3}}, {{4}, {5}, {6}, {7}}});
  CHECK(built({4}, {.computation_shape = {2}, .computation_stride = {2}, .num_replicas = 2}) ==
        Assignment{{{0}, {2}}, {{1}, {3}}});
  CHECK(built({2, 2, 1, 2}, {.num_replicas = 2}) == Assignment{{{0, 0, 0, 0}}, {{0, 0, 0, 1}}});
  CHECK(built({2, 2, 1, 2}, {.num_replicas = 4}) ==
        Assignment{{{0, 0, 0, 0}}, {{0, 0, 0, 1}}, {{1, 0, 0, 0}}, {{1, 0, 0, 1}}});
  CHECK(built({4, 2, 1, 1}, {.computation_shape = {1, 2, 1, 1}, .num_replicas = 2}) ==
        Assignment{{{0, 0, 0, 0}, {0, 1, 0, 0}}, {{1, 0, 0, 0}, {1, 1, 0, 0}}});
}

TEST_CASE("without options one replica has one core", "[mesh][host]") {
  CHECK(coordinates_of(DeviceAssignment::build(full({3, 2}))) == Assignment{{{0, 0}}});
}

TEST_CASE("a replica grid is as close to a cube as the axes allow", "[mesh][host]") {
  // Axis 0 has room for only 2 of the 3 that a square of 9 needs, so axis 1 takes 5.
  CHECK(built({2, 8}, {.num_replicas = 9}) ==
        Assignment{{{0, 0}}, {{0, 1}}, {{0, 2}}, {{0, 3}}, {{0, 4}}, {{1, 0}}, {{1, 1}}, {{1, 2}}, {{1, 3}}});
  // Equal capacities: the last axis takes 2, then axis 0 takes 2, and 1 is left for axis 1.
  CHECK(built({3, 3, 3}, {.num_replicas = 3}) == Assignment{{{0, 0, 0}}, {{0, 0, 1}}, {{1, 0, 0}}});
  // Strides add to the capacity of an axis: 5 / (2·2) · 2 = 2.
  CHECK_THROWS_MATCHES(built({5}, {.computation_shape = {2}, .computation_stride = {2}, .num_replicas = 3}),
                       InvalidArgument, says("3 replicas", "room for 2"));
}

TEST_CASE("logical cores are in row-major order, a stride apart", "[mesh][host]") {
  CHECK(built({4, 4}, {.computation_shape = {2, 2}, .computation_stride = {1, 2}, .num_replicas = 4}) ==
        Assignment{{{0, 0}, {0, 2}, {1, 0}, {1, 2}},
                   {{0, 1}, {0, 3}, {1, 1}, {1, 3}},
                   {{2, 0}, {2, 2}, {3, 0}, {3, 2}},
                   {{2, 1}, {2, 3}, {3, 1}, {3, 3}}});
}

TEST_CASE("as many replicas as there is room for have devices of their own", "[mesh][host]") {
  const auto shape = GENERATE(std::vector{1, 1, 1}, std::vector{2, 1, 2}, std::vector{1, 3, 1});
  const auto stride = GENERATE(std::vector{1, 1, 1}, std::vector{2, 1, 1}, std::vector{1, 1, 3});
  const std::vector<int> mesh{5, 3, 6};
  int capacity = 1;
  for (std::size_t axis = 0; axis < mesh.size(); ++axis)
    capacity *= mesh[axis] / (shape[axis] * stride[axis]) * stride[axis];
  for (int num_replicas = 1; num_replicas <= capacity; ++num_replicas) {
    std::set<std::vector<int>> used;
    for (const auto& cores : built(mesh, {shape, stride, num_replicas}))
      used.insert(cores.begin(), cores.end());
    REQUIRE(static_cast<int>(used.size()) == num_replicas * shape[0] * shape[1] * shape[2]);
  }
  CHECK_THROWS_AS(built(mesh, {shape, stride, capacity + 1}), InvalidArgument);
}

TEST_CASE("devices and hosts are named with task and job", "[mesh][host]") {
  const Topology topology({4}, {{{0}, {1}}, {{2}, {3}}});
  const DeviceAssignment assignment =
      DeviceAssignment::build(topology, {.computation_shape = {2}, .num_replicas = 2});
  CHECK(assignment.topology() == topology);
  CHECK(assignment.num_replicas() == 2);
  CHECK(assignment.num_cores_per_replica() == 2);
  CHECK(assignment.device(0, 1) == "/task:0/device:GPU:1");
  CHECK(assignment.device(1) == "/task:1/device:GPU:0");
  CHECK(assignment.device(1, 1, "worker") == "/job:worker/task:1/device:GPU:1");
  CHECK(assignment.host_device(1, 1) == "/task:1/device:CPU:0");
  CHECK(assignment.host_device(1, 1, "worker") == "/job:worker/task:1/device:CPU:0");
  CHECK_THROWS_MATCHES(assignment.device(0, 0, "a b"), InvalidArgument, says("'a b'"));
}

TEST_CASE("replicas are looked up by task and logical core", "[mesh][host]") {
  const Topology topology({6}, {{{0}, {1}, {2}}, {{3}, {4}, {5}}});
  // Replica 1 lies on both tasks.
  const DeviceAssignment assignment(topology, {{{0}, {1}}, {{2}, {3}}, {{4}, {5}}});
  CHECK(assignment.lookup_replicas(0, 0) == std::vector{0, 1});
  CHECK(assignment.lookup_replicas(0, 1) == std::vector{0});
  CHECK(assignment.lookup_replicas(1, 0) == std::vector{2});
  CHECK(assignment.lookup_replicas(1, 1) == std::vector{1, 2});
  CHECK_THROWS_MATCHES(assignment.lookup_replicas(2, 0), InvalidArgument,
                       says("logical core 0 on task 2", "2 tasks"));
  CHECK_THROWS_MATCHES(assignment.lookup_replicas(0, 2), InvalidArgument, says("no logical core 2"));
  const DeviceAssignment on_one_task(topology, {{{1}}, {{0}}});
  CHECK_THROWS_MATCHES(on_one_task.lookup_replicas(1, 0), InvalidArgument, says("on task 1"));
}

TEST_CASE("a replica or logical core that is not there is refused", "[mesh][host]") {
  const DeviceAssignment assignment =
      DeviceAssignment::build(full({4}), {.computation_shape = {2}, .num_replicas = 2});
  for (const auto& [replica, core] : {std::pair(-1, 0), {2, 0}, {0, -1}, {0, 2}}) {
    CAPTURE(replica, core);
    CHECK_THROWS_MATCHES(assignment.coordinates(replica, core), InvalidArgument,
                         says("Replicas count from 0 to 1, their logical cores from 0 to 1"));
    CHECK_THROWS_AS(assignment.device(replica, core), InvalidArgument);
    CHECK_THROWS_AS(assignment.host_device(replica, core), InvalidArgument);
  }
}

TEST_CASE("build refuses options that make no sense", "[mesh][host]") {
  CHECK_THROWS_MATCHES(built({4}, {.computation_stride = {0}}), InvalidArgument,
                       says("computation_stride [0] has the entry 0"));
  CHECK_THROWS_MATCHES(built({4}, {.computation_stride = {1, 1}}), InvalidArgument,
                       says("computation_stride [1, 1] has 2 entries"));
  CHECK_THROWS_MATCHES(built({4}, {.computation_shape = {2}, .computation_stride = {3}}), InvalidArgument,
                       says("2 logical cores with stride 3 on axis 0", "[4]"));
  constexpr int kMost = std::numeric_limits<int>::max();
  CHECK_THROWS_MATCHES(built({4}, {.computation_shape = {kMost}, .computation_stride = {kMost}}),
                       InvalidArgument, says("does not fit"));
  const int num_replicas = GENERATE(0, -1);
  CHECK_THROWS_MATCHES(built({4}, {.num_replicas = num_replicas}), InvalidArgument,
                       says("num_replicas is " + std::to_string(num_replicas)));
}

TEST_CASE("where devices are missing the others are dealt out in the order of tasks", "[mesh][host]") {
  const Topology topology({2, 4}, {{{0, 3}, {0, 0}, {1, 1}}, {{1, 0}, {0, 2}, {1, 3}}});
  CHECK(coordinates_of(DeviceAssignment::build(topology, {.computation_shape = {1, 2}, .num_replicas = 2})) ==
        Assignment{{{0, 3}, {0, 0}}, {{1, 1}, {1, 0}}});
  CHECK(coordinates_of(DeviceAssignment::build(
            topology, {.computation_shape = {2, 1}, .computation_stride = {1, 1}, .num_replicas = 3})) ==
        Assignment{{{0, 3}, {0, 0}}, {{1, 1}, {1, 0}}, {{0, 2}, {1, 3}}});
  CHECK_THROWS_MATCHES(DeviceAssignment::build(topology, {.computation_shape = {1, 2}, .num_replicas = 4}),
                       InvalidArgument,
                       says("4 replicas of 2 logical cores", "the 6 devices of the mesh [2, 4]"));
  CHECK_THROWS_MATCHES(DeviceAssignment::build(topology, {.computation_stride = {1, 2}}), InvalidArgument,
                       says("computation_stride [1, 2] needs a device at every place", "there are 6"));
  CHECK_THROWS_MATCHES(DeviceAssignment::build(topology, {.num_replicas = 9}), InvalidArgument,
                       says("9 replicas do not fit in the mesh [2, 4]"));
}

TEST_CASE("a core assignment is [replicas][logical cores][axes], of devices that are there", "[mesh][host]") {
  const Topology topology({3}, {{{0}, {2}}});
  CHECK_THROWS_MATCHES(DeviceAssignment(topology, Assignment{}), InvalidArgument,
                       says("DeviceAssignment", "no logical core", "[replicas][logical cores][axes]"));
  CHECK_THROWS_MATCHES(DeviceAssignment(topology, {{{0}}, {}}), InvalidArgument,
                       says("replica 1 has 0 logical cores, replica 0 has 1"));
  CHECK_THROWS_MATCHES(DeviceAssignment(topology, {{{3}}}), InvalidArgument,
                       says("logical core 0 of replica 0 at (3) is outside the mesh [3]"));
  CHECK_THROWS_MATCHES(DeviceAssignment(topology, {{{0}}, {{1}}}), InvalidArgument,
                       says("logical core 0 of replica 1 is at (1), where the topology has no device"));
  CHECK_THROWS_MATCHES(DeviceAssignment(topology, {{{0}}, {{0}}}), InvalidArgument,
                       says("logical core 0 of replica 1 at (0) is where logical core 0 of replica 0 is"));
}

TEST_CASE("assignments are equal with equal topologies and cores", "[mesh][host]") {
  const Topology topology = full({4});
  const DeviceAssignment assignment =
      DeviceAssignment::build(topology, {.computation_shape = {2}, .num_replicas = 2});
  CHECK(assignment == DeviceAssignment(topology, {{{0}, {1}}, {{2}, {3}}}));
  CHECK(assignment != DeviceAssignment(topology, {{{0}, {1}}, {{3}, {2}}}));
  CHECK(assignment != DeviceAssignment(full({5}), {{{0}, {1}}, {{2}, {3}}}));
}

TEST_CASE("what a temporary assignment tells outlives it", "[mesh][host]") {
  const auto make = [] { return DeviceAssignment::build(full({4}), {.num_replicas = 4}); };
  static_assert(!std::is_reference_v<decltype(make().topology())>);
  static_assert(!std::is_reference_v<decltype(make().coordinates(0, 0))>);
  const Topology& topology = make().topology();
  CHECK(topology.mesh_shape() == std::vector<int>{4});
  std::vector<int> place;
  for (const int at : make().coordinates(3, 0)) place.push_back(at);
  CHECK(place == std::vector<int>{3});
}
