#include "simulation/scenario.hpp"

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "simulation/fork.hpp"
#include "simulation/plan.hpp"

using namespace lockstep::simulation;
using Catch::Matchers::ContainsSubstring;

namespace {

Outcome run(std::uint64_t seed, Defect defect = Defect::none) {
  return simulate(seed, [seed, defect](System& system, Network& network) {
    Plan plan(seed);
    plan.defect = defect;
    return run_scenario(plan, system, network);
  });
}

/// A count of a run's result.
std::uint64_t count(const Outcome& outcome, const std::string& name) {
  std::istringstream text(outcome.result);
  std::string other;
  for (std::uint64_t number = 0; text >> other >> number;)
    if (other == name) return number;
  return 0;
}

}  // namespace

TEST_CASE("a seed of a simulated cluster repeats to the last event", "[simulation]") {
  for (const std::uint64_t seed : {3, 27, 60, 101}) {  // of 27 the disk is full, and errors name the folder
    const Outcome first = run(seed), again = run(seed);
    CHECK(first.failure == "");
    CHECK(first.hash == again.hash);
    CHECK(first.time == again.time);
    CHECK(first.result == again.result);
  }
}

TEST_CASE("the checks of a simulated cluster find what is broken on purpose", "[simulation]") {
  const auto [defect, text] =
      GENERATE(std::pair(Defect::skipped_step, "after step 3 the weights begin with"),
               std::pair(Defect::repeated_step, "after step 3 the weights begin with"),
               std::pair(Defect::other_bits, "is not what another worker has"),
               std::pair(Defect::open_descriptor, "has left 1 descriptors open"));
  // In which worker 1 comes to that step with the others.
  for (const std::uint64_t seed : {0, 2, 4}) CHECK_THAT(run(seed, defect).failure, ContainsSubstring(text));
}

TEST_CASE("workers of one host, and of several, train in a simulation", "[simulation]") {
  int num_on_one_host = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    CAPTURE(seed);
    CHECK(run(seed).failure == "");
    num_on_one_host += Plan(seed).is_one_host ? 1 : 0;
  }
  CHECK(num_on_one_host > 0);
  CHECK(num_on_one_host < 12);
}

TEST_CASE("workers that are lost in a simulation come back, and join those that train on", "[simulation]") {
  std::uint64_t num_joins = 0, num_grows = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    if (!Plan(seed).joins) continue;
    CAPTURE(seed);
    const Outcome outcome = run(seed);
    CHECK(outcome.failure == "");
    num_joins += count(outcome, "joins");
    num_grows += count(outcome, "grows");
  }
  CHECK(num_joins > 0);
  CHECK(num_grows >= num_joins);
}

TEST_CASE("workers that let nobody join are found", "[simulation]") {
  CHECK(run(41).failure == "");
  CHECK_THAT(run(41, Defect::ignored_joiner).failure, ContainsSubstring("have let nobody join"));
}

TEST_CASE("memory that is lost in long training is found", "[simulation]") {
  const auto outcome = [](Defect defect) {
    return simulate(4, [defect](System& system, Network& network) {
      Plan plan(4, 1.0);
      plan.defect = defect;
      return run_scenario(plan, system, network);
    });
  };
  CHECK(outcome(Defect::none).failure == "");
  CHECK_THAT(outcome(Defect::lost_memory).failure, ContainsSubstring("bytes of memory have grown"));
}

TEST_CASE("a message that TCP loses is found", "[simulation]") {
  int num_found = 0;
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    num_found += run(seed, Defect::lost_message).failure.empty() ? 0 : 1;
  CHECK(num_found >= 3);  // one that nobody needs may be lost
}
