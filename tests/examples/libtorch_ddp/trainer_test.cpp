#include "libtorch_ddp/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace {

using libtorch_ddp::train;
using libtorch_ddp::Trained;

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("replicas of a torch module lose as one replica with the whole batch does", "[examples][host]") {
  const int num_replicas = GENERATE(2, 4);
  const std::int64_t bytes_per_pack = GENERATE(0, 1);
  const Trained one =
      train({.num_replicas = 1, .num_steps = 100, .double_precision = true}, LOCKSTEP_DIGITS_DATA);
  const Trained many = train({.num_replicas = num_replicas,
                              .num_steps = 100,
                              .double_precision = true,
                              .bytes_per_pack = bytes_per_pack},
                             LOCKSTEP_DIGITS_DATA);
  REQUIRE(one.losses.size() == 100);
  REQUIRE(many.losses.size() == 100);
  REQUIRE(one.losses.back() < one.losses.front() / 4);
  INFO("largest difference " << largest_difference(one.losses, many.losses));
  REQUIRE(largest_difference(one.losses, many.losses) < 1e-6);
  REQUIRE(many.replicas_agree);
}

TEST_CASE("the same in float32, whose rounding differs with the number of rows", "[examples][host]") {
  const Trained one = train({.num_replicas = 1, .num_steps = 100}, LOCKSTEP_DIGITS_DATA);
  const Trained many = train({.num_replicas = 4, .num_steps = 100}, LOCKSTEP_DIGITS_DATA);
  INFO("largest difference " << largest_difference(one.losses, many.losses));
  REQUIRE(largest_difference(one.losses, many.losses) < 1e-6);
  REQUIRE(many.replicas_agree);
}
