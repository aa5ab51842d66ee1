#include <cstdint>
#include <limits>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/scalar.hpp>

#include "detail/concat.hpp"

using namespace lockstep;

TEST_CASE("a scalar keeps 64-bit integers exactly", "[scalar][host]") {
  const std::int64_t low = std::numeric_limits<std::int64_t>::min();
  const std::uint64_t high = std::numeric_limits<std::uint64_t>::max();
  CHECK(Scalar(low).as<std::int64_t>() == low);
  CHECK(Scalar(low + 1).as<std::int64_t>() == low + 1);
  CHECK(Scalar(high).as<std::uint64_t>() == high);
  CHECK(Scalar(high - 1).as<std::uint64_t>() == high - 1);
  CHECK(Scalar(-1).as<double>() == -1.0);
  CHECK(Scalar(high).as<double>() == 0x1p64);
}

TEST_CASE("a scalar made of any host type has its value", "[scalar][host]") {
  CHECK(Scalar(f16(1.5f)).as<float>() == 1.5f);
  CHECK(Scalar(bf16(-3.0f)).as<std::int8_t>() == -3);
  CHECK(Scalar(f8e4m3(448.0f)).as<double>() == 448.0);
  CHECK(Scalar(f8e5m2(0.125f)).as<f16>() == 0.125f);
  CHECK(Scalar(true).as<float>() == 1.0f);
  CHECK(Scalar(false).as<bool>() == false);
  CHECK(Scalar('a').as<std::int32_t>() == 97);
  CHECK(Scalar(0.1f).as<float>() == 0.1f);
  CHECK(Scalar(0.1).as<double>() == 0.1);
}

TEST_CASE("a scalar becomes a half-precision number in one rounding", "[scalar][host]") {
  CHECK(Scalar(1 + 0x1p-11 + 0x1p-40).as<f16>() == 1 + 0x1p-10f);
  CHECK(Scalar((std::int64_t(1) << 62) + (std::int64_t(1) << 54) + 1).as<bf16>() == 0x1.02p62f);
  CHECK(Scalar(65519).as<f16>() == 65504.0f);
  CHECK(Scalar(65520).as<f16>() == std::numeric_limits<float>::infinity());
}

TEST_CASE("a scalar out of an integer type's range is defined", "[scalar][host]") {
  CHECK(Scalar(1e10).as<std::int32_t>() == std::numeric_limits<std::int32_t>::max());
  CHECK(Scalar(-1e10).as<std::int32_t>() == std::numeric_limits<std::int32_t>::min());
  CHECK(Scalar(-0.5).as<std::uint8_t>() == 0);
  CHECK(Scalar(std::numeric_limits<double>::quiet_NaN()).as<std::int64_t>() == 0);
  CHECK(Scalar(300).as<std::uint8_t>() == 44);
  CHECK(Scalar(0.25).as<bool>());
  CHECK(Scalar(256).as<bool>());
}

TEST_CASE("scalars are equal when they are the same number", "[scalar][host]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(Scalar(1) == Scalar(1.0));
  CHECK(Scalar(1) == Scalar(1u));
  CHECK(Scalar(-1) == Scalar(-1.0));
  CHECK(Scalar(nan) == Scalar(-nan));
  CHECK(Scalar(0.0) == Scalar(-0.0));
  CHECK(Scalar(std::int64_t{1} << 62) == Scalar(0x1p62));
  CHECK_FALSE(Scalar(1) == Scalar(1.5));
  CHECK_FALSE(Scalar(-1) == Scalar(std::numeric_limits<std::uint64_t>::max()));
  CHECK_FALSE(Scalar((std::int64_t{1} << 62) + 1) == Scalar(0x1p62));
  CHECK_FALSE(Scalar(std::numeric_limits<std::uint64_t>::max()) == Scalar(0x1p64));
  CHECK_FALSE(Scalar(nan) == Scalar(0));
}

TEST_CASE("a dtype holds integers as they are, and floating numbers but for rounding", "[scalar][host]") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(Scalar(255).fits(DType::u8));
  CHECK_FALSE(Scalar(256).fits(DType::u8));
  CHECK_FALSE(Scalar(-1).fits(DType::u8));
  CHECK_FALSE(Scalar(-1).fits(DType::u64));
  CHECK(Scalar(-128.0).fits(DType::i8));
  CHECK_FALSE(Scalar(2.7).fits(DType::i32));
  CHECK_FALSE(Scalar(std::int64_t{1} << 40).fits(DType::i32));
  CHECK_FALSE(Scalar(0x1p63).fits(DType::i64));
  CHECK(Scalar(-0x1p63).fits(DType::i64));
  CHECK_FALSE(Scalar(infinity).fits(DType::i64));
  CHECK_FALSE(Scalar(std::numeric_limits<double>::quiet_NaN()).fits(DType::i64));
  CHECK(Scalar(1).fits(DType::boolean));
  CHECK_FALSE(Scalar(2).fits(DType::boolean));
  CHECK(Scalar(0.1).fits(DType::f16));
  CHECK(Scalar(1e-300).fits(DType::f32));
  CHECK(Scalar(65519).fits(DType::f16));
  CHECK_FALSE(Scalar(65520).fits(DType::f16));
  CHECK_FALSE(Scalar(1e300).fits(DType::f32));
  CHECK(Scalar(infinity).fits(DType::f16));
  CHECK(Scalar(std::numeric_limits<double>::quiet_NaN()).fits(DType::f32));
}

TEST_CASE("a scalar is written as the number that it is", "[scalar][host]") {
  CHECK(detail::concat(Scalar(-3), " ", Scalar(std::numeric_limits<std::uint64_t>::max()), " ",
                       Scalar(2.5)) == "-3 18446744073709551615 2.5");
}
