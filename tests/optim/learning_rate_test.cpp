#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numbers>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/error.hpp>
#include <lockstep/optim/learning_rate.hpp>

#include "support/matchers.hpp"

using Catch::Matchers::WithinRel;
using lockstep::InvalidArgument;
using lockstep::optim::LearningRate;
using lockstep::test::says;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> rates(const LearningRate& schedule, std::int64_t num_steps) {
  std::vector<double> values;
  for (std::int64_t step = 0; step < num_steps; ++step) values.push_back(schedule.at(step));
  return values;
}

}  // namespace

TEST_CASE("a constant learning rate is what numbers convert to", "[optim][learning_rate]") {
  const LearningRate integer = 1, single = 0.5f, none = 0.0;
  REQUIRE(integer.at(0) == 1);
  REQUIRE(single.at(std::int64_t{1} << 40) == 0.5);
  REQUIRE(none.at(3) == 0);
  REQUIRE(LearningRate::constant(0.25).at(7) == 0.25);
}

TEST_CASE("a learning rate is a number of at least 0, and steps are not negative", "[optim][learning_rate]") {
  const double bad = GENERATE(-1e-300, -1.0, kNan, std::numeric_limits<double>::infinity());
  REQUIRE_THROWS_MATCHES(LearningRate(bad), InvalidArgument, says("LearningRate: the rate is", "at least 0"));
  const LearningRate schedule = [bad](std::int64_t step) { return step < 2 ? 1.0 : bad; };
  REQUIRE(schedule.at(1) == 1);
  REQUIRE_THROWS_MATCHES(schedule.at(2), InvalidArgument, says("the rate of step 2 is", "at least 0"));
  REQUIRE_THROWS_MATCHES(schedule.at(-1), InvalidArgument, says("step -1 is negative"));
}

TEST_CASE("piecewise_constant changes at its boundaries", "[optim][learning_rate]") {
  REQUIRE(rates(LearningRate::piecewise_constant({2, 3}, {1, 0.5, 0.25}), 5) ==
          std::vector<double>{1, 1, 0.5, 0.25, 0.25});
  REQUIRE(rates(LearningRate::piecewise_constant({}, {0.5}), 2) == std::vector<double>{0.5, 0.5});
}

TEST_CASE("piecewise_constant refuses what makes no steps", "[optim][learning_rate]") {
  REQUIRE_THROWS_MATCHES(LearningRate::piecewise_constant({2}, {1}), InvalidArgument,
                         says("1 values for 1 boundaries", "one value more"));
  REQUIRE_THROWS_MATCHES(LearningRate::piecewise_constant({3, 3}, {1, 1, 1}), InvalidArgument,
                         says("the boundary 3 after 3", "rising order"));
  REQUIRE_THROWS_MATCHES(LearningRate::piecewise_constant({0}, {1, 1}), InvalidArgument,
                         says("the boundary 0 after 0", "above 0"));
  REQUIRE_THROWS_MATCHES(LearningRate::piecewise_constant({1}, {1, -1}), InvalidArgument,
                         says("a value is -1"));
}

TEST_CASE("step_decay falls by a factor every so many steps", "[optim][learning_rate]") {
  REQUIRE(rates(LearningRate::step_decay({.initial = 8, .every = 2, .factor = 0.5}), 6) ==
          std::vector<double>{8, 8, 4, 4, 2, 2});
  REQUIRE_THROWS_MATCHES(LearningRate::step_decay({.initial = -1}), InvalidArgument, says("initial is -1"));
  REQUIRE_THROWS_MATCHES(LearningRate::step_decay({.every = 0}), InvalidArgument, says("every is 0"));
  REQUIRE_THROWS_MATCHES(LearningRate::step_decay({.factor = 0}), InvalidArgument, says("factor is 0"));
  REQUIRE_THROWS_MATCHES(LearningRate::step_decay({.factor = kNan}), InvalidArgument, says("factor is nan"));
}

TEST_CASE("an empty schedule is refused when it is asked", "[optim][learning_rate]") {
  const LearningRate rate = std::function<double(std::int64_t)>();
  CHECK_THROWS_MATCHES(rate.at(0), InvalidArgument, says("the schedule is an empty function"));
}

TEST_CASE("cosine_decay rises along a line and falls along half a cosine", "[optim][learning_rate]") {
  const auto schedule =
      LearningRate::cosine_decay({.peak = 4, .num_steps = 12, .num_warm_up_steps = 4, .floor = 1});
  const std::vector<double> values = rates(schedule, 14);
  REQUIRE(std::vector(values.begin(), values.begin() + 5) == std::vector<double>{1, 2, 3, 4, 4});
  for (int step = 4; step < 12; ++step)
    REQUIRE_THAT(values[static_cast<std::size_t>(step)],
                 WithinRel(1 + 1.5 * (1 + std::cos(std::numbers::pi * (step - 4) / 8)), 1e-15));
  REQUIRE_THAT(values[8], WithinRel(2.5, 1e-15));
  REQUIRE(values[12] == 1);
  REQUIRE(values[13] == 1);
}

TEST_CASE("cosine_decay without a warm-up begins at the peak; with nothing else it ends at the floor",
          "[optim][learning_rate]") {
  REQUIRE(LearningRate::cosine_decay({.peak = 2, .num_steps = 10}).at(0) == 2);
  REQUIRE(LearningRate::cosine_decay({.peak = 2, .num_steps = 10}).at(10) == 0);
  REQUIRE(rates(LearningRate::cosine_decay({.peak = 2, .num_steps = 2, .num_warm_up_steps = 2}), 3) ==
          std::vector<double>{1, 2, 0});
}

TEST_CASE("cosine_decay refuses options out of their ranges", "[optim][learning_rate]") {
  REQUIRE_THROWS_MATCHES(LearningRate::cosine_decay({.peak = kNan}), InvalidArgument, says("peak is nan"));
  REQUIRE_THROWS_MATCHES(LearningRate::cosine_decay({.floor = -1}), InvalidArgument, says("floor is -1"));
  REQUIRE_THROWS_MATCHES(LearningRate::cosine_decay({.peak = 1, .floor = 2}), InvalidArgument,
                         says("floor is 2, above the peak of 1"));
  REQUIRE_THROWS_MATCHES(LearningRate::cosine_decay({.num_steps = 0}), InvalidArgument,
                         says("num_steps is 0"));
  REQUIRE_THROWS_MATCHES(LearningRate::cosine_decay({.num_steps = 4, .num_warm_up_steps = 5}),
                         InvalidArgument, says("num_warm_up_steps is 5 of 4 steps"));
  REQUIRE_THROWS_MATCHES(LearningRate::cosine_decay({.num_warm_up_steps = -1}), InvalidArgument,
                         says("num_warm_up_steps is -1"));
}
