#include "report/statistics.hpp"

#include <numeric>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using namespace lockstep::bench;

TEST_CASE("times of ranks become one as -a says", "[benchmarks]") {
  const std::vector<double> times{3, 1, 8};
  CHECK(combine(Average::rank_0, times) == 3);
  CHECK(combine(Average::mean, times) == 4);
  CHECK(combine(Average::min, times) == 1);
  CHECK(combine(Average::max, times) == 8);
}

TEST_CASE("iteration statistics leave out the leading iterations, whose times stay", "[benchmarks]") {
  const std::vector<double> times{1000, 500, 2, 4, 4, 4, 5, 5, 7, 9};
  const auto statistics = iteration_statistics(times, 2);
  CHECK(statistics.skipped == 2);
  CHECK(statistics.times == times);
  CHECK(statistics.min == 2);
  CHECK(statistics.max == 9);
  CHECK(statistics.mean == 5);
  CHECK(statistics.p50 == 5);
  CHECK(statistics.standard_deviation == 2);
  CHECK_THAT(statistics.variation_percent, Catch::Matchers::WithinRel(40.0));
}

TEST_CASE("percentiles are values that were measured", "[benchmarks]") {
  std::vector<double> times(200);
  std::iota(times.rbegin(), times.rend(), 1.0);  // 200, 199, ..., 1
  const auto statistics = iteration_statistics(times, 0);
  CHECK(statistics.p95 == 190);
  CHECK(statistics.p99 == 198);
  CHECK(iteration_statistics(std::vector<double>{7}, 0).p99 == 7);
}
