#include "arithmetic/scaled_sum.hpp"

#include <cmath>
#include <initializer_list>
#include <limits>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace lockstep::arithmetic;

namespace {

template <class A>
ScaledSum<A> sum_of(std::initializer_list<A> values) {
  ScaledSum<A> sum(sum_scale(static_cast<A>(values.size())));
  for (const A value : values) sum.add(value);
  return sum;
}

static_assert(sum_scale(3.0) == 4);  // device code may call it

}  // namespace

TEST_CASE("a sum's scale is the smallest power of two that its count does not exceed", "[arithmetic][host]") {
  CHECK(sum_scale(0.0) == 1);
  CHECK(sum_scale(1.0) == 1);
  CHECK(sum_scale(2.0f) == 2);
  CHECK(sum_scale(64.0f) == 64);
  CHECK(sum_scale(65.0) == 128);
  CHECK(sum_scale(0x1p62 + 1024) == 0x1p63);
}

TEMPLATE_TEST_CASE("the mean of numbers whose sum overflows is that of real numbers, and lies between them",
                   "[arithmetic][host]", float, double) {
  using A = TestType;
  constexpr A kMax = std::numeric_limits<A>::max();
  CHECK(sum_of<A>({kMax, kMax, kMax}).over(3) == kMax);
  CHECK(sum_of<A>({-kMax, -kMax, -kMax, -kMax, -kMax}).over(5) == -kMax);
  CHECK(sum_of<A>({kMax, kMax, -kMax, -kMax}).over(4) == 0);
  CHECK(sum_of<A>({kMax, kMax / 2}).over(2) == kMax / 4 * 3);
  CHECK(sum_of<A>({kMax, kMax, -kMax, A(0x1p10)}).over(4) == kMax / 4);
  // Sixty-four largest numbers, whose rounded sum passes the largest in steps.
  ScaledSum<A> many(64);
  for (int i = 0; i < 64; ++i) many.add(i % 3 == 0 ? std::nextafter(kMax, A(0)) : kMax);
  CHECK(many.is_finite());
  CHECK(many.over(64) <= kMax);
  CHECK(many.over(64) >= std::nextafter(kMax, A(0)));
}

TEMPLATE_TEST_CASE("a divisor other than the count gives that share of the sum", "[arithmetic][host]", float,
                   double) {
  using A = TestType;
  constexpr A kMax = std::numeric_limits<A>::max();
  CHECK(sum_of<A>({kMax, kMax}).over(4) == kMax / 2);
  CHECK(std::isinf(sum_of<A>({kMax, kMax}).over(1)));
}

TEMPLATE_TEST_CASE("what is not finite among the numbers is seen, and stays", "[arithmetic][host]", float,
                   double) {
  using A = TestType;
  constexpr A kMax = std::numeric_limits<A>::max(), kInfinity = std::numeric_limits<A>::infinity();
  constexpr A kNan = std::numeric_limits<A>::quiet_NaN();
  CHECK(sum_of<A>({kMax, kMax}).is_finite());
  CHECK_FALSE(sum_of<A>({kMax, kInfinity}).is_finite());
  CHECK_FALSE(sum_of<A>({-kInfinity, kMax}).is_finite());
  CHECK_FALSE(sum_of<A>({kNan, kMax}).is_finite());
  CHECK_FALSE(sum_of<A>({kMax, kNan, kMax}).is_finite());
  CHECK(sum_of<A>({kMax, kInfinity}).over(2) == kInfinity);
  CHECK(std::isnan(sum_of<A>({kInfinity, -kInfinity}).over(2)));
  CHECK(std::isnan(sum_of<A>({kMax, kNan}).over(2)));
}

TEST_CASE("a number is finite unless it is infinite or NaN", "[arithmetic][host]") {
  CHECK(is_finite(0.0f));
  CHECK(is_finite(std::numeric_limits<double>::lowest()));
  CHECK_FALSE(is_finite(std::numeric_limits<float>::infinity()));
  CHECK_FALSE(is_finite(-std::numeric_limits<double>::infinity()));
  CHECK_FALSE(is_finite(std::numeric_limits<float>::quiet_NaN()));
}
