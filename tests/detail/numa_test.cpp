#include "detail/numa.hpp"

#include <cstdlib>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <sched.h>

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>

#include "support/matchers.hpp"

using lockstep::detail::Numa;
using lockstep::test::says;

TEST_CASE("devices are dealt out to a machine's NUMA nodes in turn", "[detail][host]") {
  const Numa numa("node:2 core:4 pu:1");
  REQUIRE(numa.num_nodes() == 2);
  REQUIRE(numa.node_of(0) == 0);
  REQUIRE(numa.node_of(1) == 1);
  REQUIRE(numa.node_of(2) == 0);
}

TEST_CASE("with one NUMA node nothing is bound", "[detail][host]") {
  const Numa numa("node:1 core:2 pu:1");
  REQUIRE(numa.num_nodes() == 1);
  REQUIRE(numa.node_of(3) == -1);
  int value = 0;
  REQUIRE_FALSE(numa.bind_thread(0));
  REQUIRE_FALSE(numa.bind_memory(&value, sizeof(value), 0));
}

TEST_CASE("a machine that hwloc cannot make is refused", "[detail][host]") {
  REQUIRE_THROWS_MATCHES(Numa("two nodes"), lockstep::InvalidArgument,
                         says("two nodes", "node:2 core:4 pu:1"));
}

TEST_CASE("threads and memory are bound where this machine has several NUMA nodes", "[detail][host]") {
  const Numa& machine = Numa::machine();
  REQUIRE(machine.num_nodes() >= 1);
  const bool has_several = machine.num_nodes() > 1;
  REQUIRE((lockstep::DeviceManager::instance().info("CPU:1").numa_node == 1) == has_several);
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  void* const data = std::aligned_alloc(kBytes, kBytes);
  REQUIRE(machine.bind_memory(data, kBytes, 0) == has_several);
  std::free(data);
  REQUIRE_FALSE(machine.bind_thread(-1));
  REQUIRE_FALSE(machine.bind_thread(machine.num_nodes()));
}

TEST_CASE("a thread that is moved to a core may use the same cores as before", "[detail][host]") {
  const auto allowed = [] {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    REQUIRE(sched_getaffinity(0, sizeof(cores), &cores) == 0);
    return cores;
  };
  const Numa& machine = Numa::machine();
  const cpu_set_t before = allowed();
  REQUIRE(machine.core() < CPU_COUNT(&before));
  for (const int k : {0, 1, CPU_COUNT(&before), 1'000'000}) {
    REQUIRE(machine.move_to_core(k));
    const cpu_set_t after = allowed();
    REQUIRE(CPU_EQUAL(&before, &after));
  }
  REQUIRE_FALSE(machine.move_to_core(-1));
  REQUIRE_FALSE(machine.bind_to_core(-1));
}

TEST_CASE("a thread that is bound to a core stays there", "[detail][host]") {
  bool bound = false;
  int core = -1, num_allowed = 0;
  std::thread([&] {
    const Numa& machine = Numa::machine();
    bound = machine.bind_to_core(1'000'000);  // of those there are, counted in turn
    cpu_set_t cores;
    CPU_ZERO(&cores);
    sched_getaffinity(0, sizeof(cores), &cores);
    num_allowed = CPU_COUNT(&cores);
    core = machine.core();
  }).join();
  REQUIRE(bound);
  REQUIRE(num_allowed == 1);
  REQUIRE(core == 0);  // of the one that it may use
}
