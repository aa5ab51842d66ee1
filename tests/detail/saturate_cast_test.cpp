#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/detail/saturate_cast.hpp>

using namespace lockstep;
using lockstep::detail::saturate_cast;

namespace {

using Integers = std::tuple<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                            std::uint16_t, std::uint32_t, std::uint64_t>;

// Every 64-bit integer is a long double here, so nothing is rounded.
static_assert(std::numeric_limits<long double>::digits >= 64);

template <class To>
To expected(long double value) {
  using Limits = std::numeric_limits<To>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<long double>(Limits::lowest())) return Limits::lowest();
  if (value >= static_cast<long double>(Limits::max())) return Limits::max();
  return static_cast<To>(value);
}

template <class From>
std::vector<From> interesting() {
  std::vector<From> values = {From(0.0f), From(0.4f), From(0.5f),  From(0.99f),
                              From(1.0f), From(1.5f), From(100.7f)};
  for (int bit = 6; bit <= 64; ++bit) {
    const double power = std::ldexp(1.0, bit);
    const double below = power - std::ldexp(power, -std::numeric_limits<From>::digits);
    for (const double value : {below, power, power * 1.5}) values.push_back(From(value));
  }
  values.push_back(std::numeric_limits<From>::max());
  values.push_back(std::numeric_limits<From>::denorm_min());
  values.push_back(std::numeric_limits<From>::infinity());
  const std::size_t n = values.size();
  for (std::size_t i = 0; i < n; ++i) values.push_back(From(-values[i]));
  values.push_back(std::numeric_limits<From>::quiet_NaN());
  return values;
}

template <class To, class From>
void check_from() {
  for (const From value : interesting<From>()) {
    INFO("value " << static_cast<double>(value));
    CHECK(saturate_cast<To>(value) == expected<To>(static_cast<long double>(value)));
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("floating to integer truncates, saturates and takes NaN to 0", "[dtype][host]",
                        Integers) {
  check_from<TestType, float>();
  check_from<TestType, double>();
  check_from<TestType, f16>();
  check_from<TestType, bf16>();
  check_from<TestType, f8e4m3>();
  check_from<TestType, f8e5m2>();
}

TEST_CASE("saturation has the literal values one expects", "[dtype][host]") {
  CHECK(saturate_cast<std::int8_t>(1000.0f) == 127);
  CHECK(saturate_cast<std::int8_t>(-1000.0f) == -128);
  CHECK(saturate_cast<std::uint8_t>(-1.0f) == 0);
  CHECK(saturate_cast<std::uint8_t>(255.9f) == 255);
  CHECK(saturate_cast<std::int32_t>(2147483648.0f) == 2147483647);
  CHECK(saturate_cast<std::int64_t>(1e300) == std::numeric_limits<std::int64_t>::max());
  CHECK(saturate_cast<std::uint64_t>(std::numeric_limits<double>::infinity()) ==
        std::numeric_limits<std::uint64_t>::max());
  CHECK(saturate_cast<std::int32_t>(std::numeric_limits<float>::quiet_NaN()) == 0);
  CHECK(saturate_cast<std::int32_t>(-2.9) == -2);
}

TEST_CASE("integers convert as in C++: narrowing wraps", "[dtype][host]") {
  CHECK(saturate_cast<std::int8_t>(std::int32_t(300)) == 44);
  CHECK(saturate_cast<std::uint8_t>(std::int64_t(-1)) == 255);
  CHECK(saturate_cast<std::int64_t>(std::uint64_t(1) << 63) == std::numeric_limits<std::int64_t>::min());
  CHECK(saturate_cast<std::int32_t>(true) == 1);
}

TEST_CASE("anything to boolean is whether it is not zero", "[dtype][host]") {
  CHECK(saturate_cast<bool>(0.5f));
  CHECK(saturate_cast<bool>(std::numeric_limits<double>::denorm_min()));
  CHECK(saturate_cast<bool>(std::numeric_limits<float>::quiet_NaN()));
  CHECK_FALSE(saturate_cast<bool>(-0.0f));
  CHECK(saturate_cast<bool>(std::int64_t(256)));
  CHECK_FALSE(saturate_cast<bool>(std::uint8_t(0)));
  CHECK(saturate_cast<bool>(f16(0x1p-24)));
  CHECK_FALSE(saturate_cast<bool>(bf16(-0.0f)));
  CHECK(saturate_cast<bool>(f8e4m3::from_bits(0x7f)));
  CHECK(saturate_cast<bool>(true));
}

TEST_CASE("doubles and integers reach small floats in one rounding", "[dtype][host]") {
  // Just above the midpoint of 1 and its successor: to float first, it would be the midpoint, and then 1.
  CHECK(saturate_cast<bf16>(1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7f);
  CHECK(saturate_cast<f16>(1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10f);
  CHECK(saturate_cast<bf16>((std::int64_t(1) << 62) + (std::int64_t(1) << 54) + 1) == 0x1.02p62f);
  CHECK(saturate_cast<f16>(bf16(1.5f)) == 1.5f);
  CHECK(saturate_cast<f8e4m3>(f16(1000.0f)).bits == 0x7f);
  CHECK(saturate_cast<double>(f8e5m2(0.25f)) == 0.25);
  CHECK(saturate_cast<f16>(true) == 1.0f);
}
