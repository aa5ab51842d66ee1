#include "report/bandwidth.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using Catch::Matchers::WithinRel;
using lockstep::bench::all_reduce_bus_factor;
using lockstep::bench::bandwidth;
using lockstep::bench::gather_bus_factor;
using lockstep::bench::rooted_bus_factor;

TEST_CASE("P45 all_reduce of 1e9 bytes on 4 replicas in 0.01 s is 100 GB/s, 150 GB/s on the bus",
          "[benchmarks]") {
  const auto result = bandwidth(1'000'000'000, 0.01, all_reduce_bus_factor(4));
  CHECK_THAT(result.algorithm, WithinRel(100.0));
  CHECK_THAT(result.bus, WithinRel(150.0));
}

TEST_CASE("the bus factor of all_reduce is 2(n-1)/n", "[benchmarks]") {
  CHECK(all_reduce_bus_factor(1) == 0);
  CHECK(all_reduce_bus_factor(2) == 1);
  CHECK(all_reduce_bus_factor(8) == 1.75);
}

TEST_CASE("the bus factor of gathers and scatters is (n-1)/n, of broadcast and reduce 1", "[benchmarks]") {
  CHECK(gather_bus_factor(1) == 0);
  CHECK(gather_bus_factor(2) == 0.5);
  CHECK(gather_bus_factor(8) == 0.875);
  CHECK(rooted_bus_factor(1) == 1);
  CHECK(rooted_bus_factor(8) == 1);
}

TEST_CASE("bandwidth of no bytes, or in no time, is 0", "[benchmarks]") {
  CHECK(bandwidth(0, 1, 1).algorithm == 0);
  CHECK(bandwidth(100, 0, 1).algorithm == 0);
  CHECK(bandwidth(100, 0, 1).bus == 0);
}
