#include <cstdint>
#include <limits>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/scalar.hpp>

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
