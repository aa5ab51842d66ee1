#include <type_traits>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/error.hpp>
#include <lockstep/strategy/topology.hpp>

#include "support/matchers.hpp"

using namespace lockstep;
using test::says;

TEST_CASE("a topology names the device and the host at a place", "[mesh][host]") {
  const Topology topology({2, 2}, {{{0, 0}, {0, 1}}, {{1, 1}, {1, 0}}});
  CHECK(topology.mesh_shape() == std::vector{2, 2});
  CHECK(topology.mesh_rank() == 2);
  CHECK(topology.device_kind() == DeviceKind::gpu);
  CHECK(topology.num_tasks() == 2);
  CHECK(topology.num_devices_per_task() == 2);
  CHECK(topology.coordinates()[1][0] == std::vector{1, 1});
  CHECK_FALSE(topology.has_missing_devices());
  CHECK(topology.device({0, 0}) == "GPU:0");
  CHECK(topology.device({1, 0}) == "/task:1/device:GPU:1");
  CHECK(topology.device({1, 0}, "worker") == "/job:worker/task:1/device:GPU:1");
  CHECK(topology.host_device({0, 1}) == "CPU:0");
  CHECK(topology.host_device({1, 0}) == "/task:1/device:CPU:0");
  CHECK(topology.host_device({1, 0}, "worker") == "/job:worker/task:1/device:CPU:0");
}

TEST_CASE("a topology is of the host's devices too, and of any rank", "[mesh][host]") {
  const Topology topology({1, 1, 1, 1, 3}, {{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 2}}}, DeviceKind::cpu);
  CHECK(topology.mesh_rank() == 5);
  CHECK(topology.device({0, 0, 0, 0, 2}) == "CPU:1");
  CHECK(topology.host_device({0, 0, 0, 0, 2}) == "CPU:0");
}

TEST_CASE("a topology may be without a device at some places", "[mesh][host]") {
  const Topology topology({3}, {{{0}, {2}}});
  CHECK(topology.has_missing_devices());
  CHECK(topology.contains({2}));
  CHECK_FALSE(topology.contains({1}));
  CHECK_FALSE(topology.contains({3}));
  CHECK_FALSE(topology.contains({0, 0}));
  CHECK_THROWS_MATCHES(topology.device({1}), InvalidArgument, says("no device at (1)", "mesh [3]"));
  CHECK_THROWS_MATCHES(topology.host_device({0, 0}), InvalidArgument, says("no device at (0, 0)"));
  const int many = 1 << 20;  // places, more than 64 bits count
  CHECK(Topology({many, many, many, many}, {{{0, 0, 0, 0}}}).has_missing_devices());
}

TEST_CASE("a job that is none is refused", "[mesh][host]") {
  const Topology topology({1}, {{{0}}});
  CHECK_THROWS_MATCHES(topology.device({0}, "a b"), InvalidArgument, says("'a b'", "name of a job"));
  CHECK_THROWS_MATCHES(topology.device({0}, "a/task:3"), InvalidArgument, says("two tasks"));
  CHECK_THROWS_MATCHES(topology.device({0}, "a/replica:3"), InvalidArgument,
                       says("'a/replica:3' is not the name of a job"));
  CHECK_THROWS_MATCHES(topology.host_device({0}, "a/replica:3"), InvalidArgument,
                       says("'a/replica:3' is not the name of a job"));
}

TEST_CASE("a mesh has axes, each with places", "[mesh][host]") {
  CHECK_THROWS_MATCHES(Topology({}, {{{0}}}), InvalidArgument, says("Topology", "no axes"));
  CHECK_THROWS_MATCHES(Topology({2, 0}, {{{0, 0}}}), InvalidArgument, says("[2, 0]", "axis of 0 places"));
  CHECK_THROWS_MATCHES(Topology({-1}, {{{0}}}), InvalidArgument, says("axis of -1 places"));
}

TEST_CASE("coordinates of a topology are [tasks][devices][axes], in the mesh", "[mesh][host]") {
  CHECK_THROWS_MATCHES(Topology({2}, {}), InvalidArgument, says("Topology", "no device", "[tasks][devices]"));
  CHECK_THROWS_MATCHES(Topology({2}, {{{0}, {1}}, {{0}}}), InvalidArgument,
                       says("task 1 has 1 devices, task 0 has 2"));
  CHECK_THROWS_MATCHES(Topology({2}, {{{0, 0}}}), InvalidArgument,
                       says("device 0 of task 0 at (0, 0) has 2 coordinates", "rank 1"));
  CHECK_THROWS_MATCHES(Topology({2}, {{{-1}}}), InvalidArgument,
                       says("(-1) is outside the mesh [2] on axis 0"));
  CHECK_THROWS_MATCHES(Topology({2}, {{{0}}, {{0}}}), InvalidArgument,
                       says("device 0 of task 1 at (0) is where device 0 of task 0 is"));
}

TEST_CASE("topologies with the same devices at the same places are equal", "[mesh][host]") {
  const Topology topology({2}, {{{0}, {1}}});
  CHECK(topology == Topology({2}, {{{0}, {1}}}));
  CHECK(topology != Topology({2}, {{{1}, {0}}}));
  CHECK(topology != Topology({2}, {{{0}, {1}}}, DeviceKind::cpu));
  CHECK(topology != Topology({3}, {{{0}, {1}}}));
}

TEST_CASE("what a temporary topology tells outlives it", "[mesh][host]") {
  const auto make = [] { return Topology({2, 1}, {{{0, 0}, {1, 0}}}); };
  static_assert(!std::is_reference_v<decltype(make().mesh_shape())>);
  static_assert(!std::is_reference_v<decltype(make().coordinates())>);
  std::vector<int> extents;
  for (const int extent : make().mesh_shape()) extents.push_back(extent);
  CHECK(extents == std::vector<int>{2, 1});
  const auto& coordinates = make().coordinates();
  CHECK(coordinates == std::vector<std::vector<std::vector<int>>>{{{0, 0}, {1, 0}}});
}
