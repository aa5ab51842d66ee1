#include "input/formats/readers/csv_numbers.hpp"

#include <bit>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include "detail/concat.hpp"

using lockstep::detail::parse_number;
using lockstep::detail::parse_plain;

namespace csv_numbers_test {
template <class T>
bool is_same(T a, T b) {
  if constexpr (std::is_same_v<T, float>)
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  else if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
  else
    return a == b;
}

/// Whether the text, if parse_plain reads it, is what std::from_chars says. @param is_plain  counts those.
template <class T>
bool agrees(const std::string& text, int& is_plain) {
  T plain{}, expected{};
  if (!parse_plain(text, plain)) return true;
  ++is_plain;
  return parse_number(text, expected) == std::errc() && is_same(plain, expected);
}
}  // namespace csv_numbers_test

using csv_numbers_test::agrees;

TEMPLATE_TEST_CASE("numbers that are read fast are those that std::from_chars reads", "[input][csv][host]",
                   std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint64_t, float,
                   double) {
  std::mt19937_64 random(1);
  int num_plain = 0, num_wrong = 0;
  const auto check = [&](const std::string& text) {
    if (!agrees<TestType>(text, num_plain)) {
      UNSCOPED_INFO(text);
      ++num_wrong;
    }
  };
  for (const char* const text : {"",
                                 "-",
                                 "0",
                                 "-0",
                                 "00",
                                 "1",
                                 "-1",
                                 "127",
                                 "128",
                                 "-128",
                                 "-129",
                                 "255",
                                 "256",
                                 "999999999999999",
                                 "1000000000000000",
                                 "+1",
                                 " 1",
                                 "1 ",
                                 "--1",
                                 ".",
                                 "-.",
                                 ".5",
                                 "5.",
                                 "-.5",
                                 "1e",
                                 "1e+",
                                 "1e5",
                                 "1E-5",
                                 "1e22",
                                 "1e23",
                                 "1e-22",
                                 "1e-23",
                                 "1e005",
                                 "e5",
                                 ".e5",
                                 "1.5e3x",
                                 "x",
                                 "1,",
                                 "nan",
                                 "inf",
                                 "0x1",
                                 "-0.0"})
    check(text);
  for (int i = 0; i < 200'000; ++i) {
    const std::int64_t digits = static_cast<std::int64_t>(random() >> random() % 60) / 1000;
    char text[64];
    switch (i % 4) {
      case 0:
        std::snprintf(text, sizeof text, "%lld", static_cast<long long>(i % 8 == 0 ? -digits : digits));
        break;
      case 1:
        std::snprintf(text, sizeof text, "%.*f", i % 9, static_cast<double>(digits % 1'000'000) / 7);
        break;
      case 2: std::snprintf(text, sizeof text, "%.*e", i % 16, static_cast<double>(digits) / 3e12); break;
      // In the middle between two floats, and next to it.
      default:
        std::snprintf(text, sizeof text, "%lld.%d",
                      static_cast<long long>((std::int64_t{1} << 25) + 2 * (digits % 1000)) + i / 4 % 3,
                      i % 5);
    }
    check(text);
  }
  CHECK(num_wrong == 0);
  CHECK(num_plain > (std::is_floating_point_v<TestType> ? 100'000 : 500));
}

TEST_CASE("what is no short number is not read fast", "[input][csv][host]") {
  for (const char* const text :
       {"", "-", "+1", " 1", "1 ", "1e23", "1e-23", "1234567890123456", ".", "1e", "nan"}) {
    double value = 0;
    CHECK_FALSE(parse_plain(text, value));
  }
  bool flag = false;
  CHECK_FALSE(parse_plain("1", flag));
  float middle = 0;
  CHECK_FALSE(parse_plain("33554434.0", middle));  // 2^25 + 2: two floats are as near
  CHECK(parse_plain("33554435", middle));
}
