#include "count/counting.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "exit_status.hpp"

using namespace lockstep::bench;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

// This program is not on virtual GPUs.
TEST_CASE("where nothing counts it is said how to start what does", "[benchmarks]") {
  CHECK_THROWS_MATCHES(require_counting(), OptionError,
                       MessageMatches(ContainsSubstring("--count needs virtual GPUs") &&
                                      ContainsSubstring("vgpu-run -n GPUS lockstep_bench")));
  try {
    require_counting();
  } catch (const OptionError& error) {
    CHECK(error.status() == ExitStatus::not_implemented);
  }
}
