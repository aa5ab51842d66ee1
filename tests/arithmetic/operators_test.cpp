#include "arithmetic/operators.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include "support/arithmetic_cases.hpp"
#include "support/dtypes.hpp"

namespace lockstep::test {
namespace {

template <class A>
A evaluate(Rule rule, A a, A b) {
  switch (rule) {
    case Rule::sum: return arithmetic::Sum::apply(a, b);
    case Rule::difference: return arithmetic::Difference::apply(a, b);
    case Rule::product: return arithmetic::Product::apply(a, b);
    case Rule::quotient: return arithmetic::Quotient::apply(a, b);
    case Rule::min: return arithmetic::Min::apply(a, b);
    case Rule::max: return arithmetic::Max::apply(a, b);
    case Rule::relu_gradient: return arithmetic::ReluGradient::apply(a, b);
    case Rule::negated: return arithmetic::negated(a);
    case Rule::relu: return arithmetic::relu(a);
  }
  return a;
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class Op, class T>
void check_identity(const std::vector<T>& values) {
  using A = arithmetic::compute_t<T>;
  const A identity = static_cast<A>(Op::template identity<T>());
  for (const T value : values) {
    INFO("value " << static_cast<double>(value));
    CHECK(same_bits(Op::apply(identity, static_cast<A>(value)), static_cast<A>(value)));
    CHECK(same_bits(Op::apply(static_cast<A>(value), identity), static_cast<A>(value)));
  }
}

// They are what device code may call.
static_assert(arithmetic::Sum::apply<std::int8_t>(127, 1) == -128);
static_assert(arithmetic::Quotient::apply<std::int64_t>(5, 0) == 0);
static_assert(arithmetic::Min::apply(1.0f, 2.0f) == 1);

}  // namespace

TEMPLATE_LIST_TEST_CASE("each rule of arithmetic has one answer", "[arithmetic][host]", NumericTypes) {
  using T = TestType;
  using A = arithmetic::compute_t<T>;
  for (const auto& [rule, a, b, expected] : arithmetic_cases<T>()) {
    INFO("rule " << static_cast<int>(rule) << " of " << static_cast<double>(a) << " and "
                 << static_cast<double>(b));
    const T result = static_cast<T>(evaluate(rule, static_cast<A>(a), static_cast<A>(b)));
    CHECK((result == expected || (result != result && expected != expected)));
  }
}

TEMPLATE_LIST_TEST_CASE("an operator's identity changes no number, not even the sign of 0",
                        "[arithmetic][host]", NumericTypes) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {static_cast<T>(0), static_cast<T>(1), Limits::lowest(), Limits::max()};
  if constexpr (!std::integral<T>) {
    values.push_back(static_cast<T>(-0.0f));
    if (Limits::has_infinity) values.push_back(Limits::infinity());
    if (Limits::has_infinity) values.push_back(static_cast<T>(-Limits::infinity()));
  }
  check_identity<arithmetic::Sum>(values);
  check_identity<arithmetic::Product>(values);
  check_identity<arithmetic::Min>(values);
  check_identity<arithmetic::Max>(values);
}

TEST_CASE("min and max take the first of equal numbers", "[arithmetic][host]") {
  CHECK(std::signbit(arithmetic::Min::apply(-0.0f, 0.0f)));
  CHECK_FALSE(std::signbit(arithmetic::Min::apply(0.0f, -0.0f)));
  CHECK(std::signbit(arithmetic::Max::apply(-0.0, 0.0)));
}

TEST_CASE("a number over the host's: integers in double, truncated and saturated", "[arithmetic][host]") {
  CHECK(arithmetic::over(std::int8_t{-7}, 2) == -3);
  CHECK(arithmetic::over(std::int8_t{100}, 0.5) == 127);
  CHECK(arithmetic::over(std::uint8_t{7}, 0) == 255);
  CHECK(arithmetic::over(std::int32_t{0}, 0) == 0);
  CHECK(arithmetic::over((std::int64_t{1} << 53) + 1, 1) == std::int64_t{1} << 53);
  CHECK(arithmetic::over(7.0f, 2) == 3.5f);
  CHECK(arithmetic::over(1.0f, 0.1) == 1.0f / 0.1f);
}

TEST_CASE("NaN is larger than any number, and not than NaN", "[arithmetic][host]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(arithmetic::is_larger(2.0f, 1.0f));
  CHECK_FALSE(arithmetic::is_larger(1.0f, 1.0f));
  CHECK(arithmetic::is_larger(nan, std::numeric_limits<float>::infinity()));
  CHECK_FALSE(arithmetic::is_larger(1.0f, nan));
  CHECK_FALSE(arithmetic::is_larger(nan, nan));
  CHECK(arithmetic::is_larger(2, 1));
}

TEST_CASE("reductions of nothing: 0, 1, and NaN over 0", "[arithmetic][host]") {
  CHECK(arithmetic::of_nothing(ReduceOp::sum, 1) == 0);
  CHECK_FALSE(std::signbit(arithmetic::of_nothing(ReduceOp::mean, -2)));
  CHECK(arithmetic::of_nothing(ReduceOp::product, 1) == 1);
  CHECK(std::isnan(arithmetic::of_nothing(ReduceOp::mean, 0)));
}

}  // namespace lockstep::test
