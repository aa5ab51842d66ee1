#include "measure/measurement.hpp"

#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using namespace lockstep::bench;
using Catch::Matchers::WithinRel;

namespace {

// Two threads of two processes, ten iterations of two operations.
Options options_of(Average average) {
  Options options;
  options.average = average;
  options.iterations = 10;
  options.aggregate = 2;
  return options;
}

const std::vector<Measurement>& measured() {
  static const std::vector<Measurement> all{{.seconds = 40e-6, .floor_seconds = {20e-6, 10e-6}, .wrong = 1},
                                            {.seconds = 80e-6, .floor_seconds = {20e-6, 60e-6}, .wrong = 0},
                                            {.seconds = 20e-6, .floor_seconds = {30e-6, 10e-6}, .wrong = 5},
                                            {.seconds = 60e-6, .floor_seconds = {20e-6, 10e-6}, .wrong = 2}};
  return all;
}

}  // namespace

TEST_CASE("times of all processes' threads are combined as -a says", "[benchmarks]") {
  const auto time = [](Average average) {
    return combine(options_of(average), measured(), 1000, 1.5, 2).time_us;
  };
  CHECK_THAT(time(Average::rank_0), WithinRel(2.0));
  CHECK_THAT(time(Average::mean), WithinRel(2.5));
  CHECK_THAT(time(Average::min), WithinRel(1.0));
  CHECK_THAT(time(Average::max), WithinRel(4.0));
}

TEST_CASE("bandwidths are those of the combined time", "[benchmarks]") {
  const Placement placement = combine(options_of(Average::max), measured(), 1000, 1.5, 2);
  CHECK_THAT(placement.bandwidth.algorithm, WithinRel(0.25));
  CHECK_THAT(placement.bandwidth.bus, WithinRel(0.375));
}

TEST_CASE("wrong elements of all processes are added up, where they were looked for", "[benchmarks]") {
  Options options = options_of(Average::mean);
  CHECK(combine(options, measured(), 1000, 1, 2).wrong == 8);
  options.check = 0;
  CHECK_FALSE(combine(options, measured(), 1000, 1, 2).wrong.has_value());
}

TEST_CASE("what all processes do is added up, for one operation", "[benchmarks]") {
  std::vector<Measurement> all(4);
  all[0].work = {.sectors = 2000, .launches = 20, .calls = 100, .waits = 10};
  all[2].work = {.sectors = 1000, .launches = 20, .calls = 60, .waits = 0};
  const Counted counted = count_per_operation(options_of(Average::mean), all, 4000);
  CHECK(counted.sectors == 150);
  CHECK(counted.least_bytes == 4000);
  CHECK_THAT(counted.ratio.value(), WithinRel(1.2));
  CHECK((counted.launches == 2 && counted.calls == 8 && counted.waits == 0.5));
  CHECK_FALSE(count_per_operation(options_of(Average::mean), all, 0).ratio.has_value());
}

TEST_CASE("the floor is the faster loop of the slowest thread of any process", "[benchmarks]") {
  Options options = options_of(Average::min);
  options.floor = true;
  const Placement placement = combine(options, measured(), 1000, 1, 2);
  CHECK_THAT(placement.floor->time_us, WithinRel(1.5));  // the first loop's: the second has a slower thread
  CHECK_THAT(placement.floor->ratio, WithinRel(1.5));
}

TEST_CASE("an iteration takes as long as the slowest process's", "[benchmarks]") {
  Options options = options_of(Average::mean);
  options.per_iteration = true;
  options.iterations = 2;
  std::vector<Measurement> all = measured();
  for (Measurement& measurement : all) measurement.iteration_seconds = {2e-6, 4e-6};
  all[2].iteration_seconds[0] = 20e-6;
  const Placement placement = combine(options, all, 1000, 1, 2);
  CHECK(placement.iterations->max == 10.0);
  CHECK(placement.iterations->min == 2.0);
}

TEST_CASE("a process alone has nothing to share", "[benchmarks]") {
  std::vector<Measurement> all = measured();
  share(Processes(), all);
  CHECK(num_wrong(all) == 8);
}
