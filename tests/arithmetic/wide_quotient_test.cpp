#include "arithmetic/wide_quotient.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include "support/exact_quotient.hpp"

using namespace lockstep::arithmetic;
using lockstep::test::exact_quotient;
using lockstep::test::Int128;

TEMPLATE_TEST_CASE("a quotient of a sum beyond 64 bits is rounded once", "[arithmetic][host]", std::int64_t,
                   std::uint64_t) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100000; ++i) {
    const std::int64_t divisor = 1 + static_cast<std::int64_t>(random() >> (random() % 40 + 11));
    Int128 sum = 0;
    double rough = 0;
    for (int k = 0; k < 9; ++k) {
      const auto value = static_cast<TestType>(random());
      sum += value;
      rough += static_cast<double>(value);
    }
    const auto wrapped = static_cast<TestType>(sum);
    REQUIRE(wide_quotient(wrapped, rough, static_cast<double>(divisor)) == exact_quotient(sum, divisor));
    REQUIRE(wide_quotient(wrapped, static_cast<double>(divisor)) == exact_quotient(wrapped, divisor));
  }
}

TEST_CASE("a quotient of a wide sum rounds a tie to even, and what is not finite stays",
          "[arithmetic][host]") {
  constexpr std::int64_t kTie = (std::int64_t{1} << 53) + 1;  // halfway between two doubles
  CHECK(wide_quotient(kTie, 1.0) == 0x1p53);
  CHECK(wide_quotient(3 * kTie, 3.0) == 0x1p53);
  CHECK(wide_quotient(3 * (kTie + 2), 3.0) == 0x1p53 + 4);
  CHECK(wide_quotient(kTie, std::numeric_limits<double>::infinity()) == 0);
  CHECK(std::isinf(wide_quotient(kTie, 0.0)));
  CHECK(std::isnan(wide_quotient(std::int64_t{0}, 0.0)));
  CHECK(std::isnan(wide_quotient(kTie, std::numeric_limits<double>::quiet_NaN())));
  CHECK(wide_quotient(std::int32_t{7}, 2.0) == 3.5);
}
