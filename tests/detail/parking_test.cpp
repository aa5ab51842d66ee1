#include "detail/parking.hpp"

#include <thread>

#include <catch2/catch_test_macros.hpp>

using lockstep::detail::Parking;

// Whoever waits yields then: with two processes of two replicas on two cores, spinning made a short
// all_reduce take 40 us instead of 6.
TEST_CASE("a process that shares its cores with others' threads has none to spin on", "[parking]") {
  const std::uint64_t num_cores = std::thread::hardware_concurrency();
  CHECK(Parking::has_cores_for(num_cores));
  CHECK_FALSE(Parking::has_cores_for(num_cores + 1));
  Parking::expect_host_threads(num_cores);
  CHECK(Parking::has_cores_for(1));
  Parking::expect_host_threads(num_cores + 1);
  CHECK_FALSE(Parking::has_cores_for(1));
  Parking::expect_host_threads(1);  // another strategy's
  CHECK_FALSE(Parking::has_cores_for(1));
}
