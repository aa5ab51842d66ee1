#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <lockstep/dtype.hpp>

using namespace lockstep;

namespace {

using SmallFloats = std::tuple<f16, bf16, f8e4m3, f8e5m2>;

// A format as its specification tables it, and its conversions done slowly: all values are listed, and the
// nearest is searched.
template <class T>
class Reference {
 public:
  Reference() {
    for (int pattern = 0;; ++pattern) {
      values_.push_back(decode(pattern));
      if (pattern == kFirstSpecial) break;  // what the next finite number would be
    }
  }

  static constexpr bool kIsE4m3 = std::same_as<T, f8e4m3>;
  static constexpr int kMantissaBits = std::same_as<T, f16>    ? 10
                                       : std::same_as<T, bf16> ? 7
                                       : kIsE4m3               ? 3
                                                               : 2;
  static constexpr int kBias = std::same_as<T, bf16> ? 127 : kIsE4m3 ? 7 : 15;
  static constexpr int kNumPatterns = 1 << (8 * sizeof(T));
  static constexpr int kSign = kNumPatterns / 2;
  static constexpr int kFirstSpecial = std::same_as<T, f16>    ? 0x7c00
                                       : std::same_as<T, bf16> ? 0x7f80
                                       : kIsE4m3               ? 0x7f
                                                               : 0x7c;

  // The value of a pattern without a sign, as though there were no special ones.
  static double decode(int pattern) {
    const int exponent = pattern >> kMantissaBits;
    const int mantissa = pattern & ((1 << kMantissaBits) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - kBias - kMantissaBits);
    return std::ldexp(mantissa + (1 << kMantissaBits), exponent - kBias - kMantissaBits);
  }

  static bool is_nan(int pattern) { return (pattern & (kSign - 1)) > kFirstSpecial - (kIsE4m3 ? 1 : 0); }
  static bool is_quiet_nan(int pattern) {
    return is_nan(pattern) && (pattern & (1 << (kMantissaBits - 1))) != 0;
  }
  static bool is_infinity(int pattern) { return !kIsE4m3 && (pattern & (kSign - 1)) == kFirstSpecial; }

  // The pattern that the nearest number to an exact value has.
  int nearest(long double value) const {
    const int sign = std::signbit(value) ? kSign : 0;
    const long double magnitude = std::fabs(value);
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return sign | kFirstSpecial;
    const int high = static_cast<int>(above - values_.begin());
    const long double to_low = magnitude - values_[static_cast<std::size_t>(high - 1)];
    const long double to_high = *above - magnitude;
    const int even = high % 2 == 0 ? high : high - 1;
    return sign | (to_low < to_high ? high - 1 : to_low > to_high ? high : even);
  }

  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;  // of the patterns 0 to kFirstSpecial
};

template <class T>
T from_bits(int pattern) {
  return T::from_bits(static_cast<decltype(T::bits)>(pattern));
}

// Catch2 assertions are slow: the mistakes are counted, and the first is shown.
struct Mistakes {
  int count = 0;
  double input = 0;
  int result = 0;
  int expected = 0;

  void check(double value, int got, int wanted) {
    if (got != wanted && count++ == 0) std::tie(input, result, expected) = std::tuple(value, got, wanted);
  }
};

#define CHECK_NO_MISTAKES(mistakes)                                                      \
  do {                                                                                   \
    INFO("first: " << (mistakes).input << " gave " << (mistakes).result << ", expected " \
                   << (mistakes).expected);                                              \
    CHECK((mistakes).count == 0);                                                        \
  } while (false)

}  // namespace

TEMPLATE_LIST_TEST_CASE("every small float has the value its format says and survives the round trip",
                        "[dtype][host]", SmallFloats) {
  using R = Reference<TestType>;
  Mistakes mistakes;
  for (int pattern = 0; pattern < R::kNumPatterns; ++pattern) {
    const TestType number = from_bits<TestType>(pattern);
    const float value = number;
    if (R::is_nan(pattern)) {
      mistakes.check(pattern, std::isnan(value), 1);
      mistakes.check(pattern, std::signbit(value), (pattern & R::kSign) != 0);
      const int back = TestType(value).bits;
      // Quiet, and otherwise the same pattern.
      mistakes.check(pattern, back, R::kIsE4m3 ? pattern : pattern | (1 << (R::kMantissaBits - 1)));
      mistakes.check(pattern, TestType(static_cast<double>(value)).bits, back);
      continue;
    }
    double expected = R::is_infinity(pattern) ? HUGE_VAL : R::decode(pattern & (R::kSign - 1));
    if (pattern & R::kSign) expected = -expected;
    mistakes.check(expected, value == static_cast<float>(expected) && value == expected, 1);
    mistakes.check(expected, std::signbit(value), (pattern & R::kSign) != 0);
    mistakes.check(expected, TestType(value).bits, pattern);
    mistakes.check(expected, TestType(expected).bits, pattern);
  }
  CHECK_NO_MISTAKES(mistakes);
}

TEMPLATE_LIST_TEST_CASE("floats and doubles round to the nearest small float, ties to even", "[dtype][host]",
                        SmallFloats) {
  const Reference<TestType> reference;
  Mistakes from_float, from_double;
  auto check = [&](auto value) {
    for (const auto signed_value : {value, -value}) {
      Mistakes& mistakes = std::same_as<decltype(value), float> ? from_float : from_double;
      mistakes.check(signed_value, TestType(signed_value).bits, reference.nearest(signed_value));
    }
  };
  auto check_around = [&](auto value) {
    check(value);
    check(std::nextafter(value, decltype(value)(0)));
    check(std::nextafter(value, std::numeric_limits<decltype(value)>::infinity()));
  };

  for (std::size_t i = 1; i < reference.values().size(); ++i) {
    const double low = reference.values()[i - 1], high = reference.values()[i];
    const double middle = (low + high) / 2;  // exact; a float too
    check_around(low);
    check_around(middle);
    check_around(static_cast<float>(low));
    check_around(static_cast<float>(middle));
  }
  check(reference.values().back());
  check(std::numeric_limits<double>::max());
  check(std::numeric_limits<double>::denorm_min());
  check(std::numeric_limits<double>::min());
  check(std::numeric_limits<float>::max());
  check(std::numeric_limits<float>::denorm_min());
  check(std::numeric_limits<float>::min());

  std::mt19937_64 random(7);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t bits = random();
    const float f = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const double d = std::bit_cast<double>(bits);
    // A double's whole exponent range is mostly overflow; this one keeps to the format's own.
    const int exponent =
        static_cast<int>(bits % (2 * Reference<TestType>::kBias + 20)) - Reference<TestType>::kBias - 12;
    if (!std::isnan(f)) check(f);
    if (!std::isnan(d)) check(d);
    check(std::ldexp(1 + static_cast<double>(bits >> 12) * 0x1p-52, exponent));
  }
  CHECK_NO_MISTAKES(from_float);
  CHECK_NO_MISTAKES(from_double);
}

TEMPLATE_LIST_TEST_CASE("infinities and NaN become what the format has for them", "[dtype][host]",
                        SmallFloats) {
  using R = Reference<TestType>;
  const auto check = [](auto limits) {
    using F = decltype(limits.infinity());
    CHECK(TestType(limits.infinity()).bits == R::kFirstSpecial);
    CHECK(TestType(-limits.infinity()).bits == (R::kSign | R::kFirstSpecial));
    CHECK(R::is_quiet_nan(TestType(limits.quiet_NaN()).bits));
    CHECK(R::is_quiet_nan(TestType(-limits.quiet_NaN()).bits));
    CHECK(std::signbit(static_cast<float>(TestType(-limits.quiet_NaN()))));
    // NaN whose payload lies below the small mantissa must not turn into infinity.
    using Bits = std::conditional_t<sizeof(F) == 8, std::uint64_t, std::uint32_t>;
    const F low_payload = std::bit_cast<F>(static_cast<Bits>(std::bit_cast<Bits>(limits.infinity()) + 1));
    CHECK(R::is_quiet_nan(TestType(low_payload).bits));
  };
  check(std::numeric_limits<float>{});
  check(std::numeric_limits<double>{});
}

TEMPLATE_LIST_TEST_CASE("64-bit integers reach small floats in one rounding", "[dtype][host]", SmallFloats) {
  const Reference<TestType> reference;
  Mistakes mistakes;
  auto check = [&](auto value) {
    // The reference's zero has no sign, an integer's neither.
    mistakes.check(static_cast<double>(value), TestType(value).bits,
                   reference.nearest(static_cast<long double>(value)));
  };
  // Just beside bfloat16's midpoints, where a first rounding to double would land on them.
  for (int bit = 8; bit < 64; ++bit) {
    for (std::uint64_t mantissa = 128; mantissa < 256; ++mantissa) {
      const std::uint64_t middle = (2 * mantissa + 1) << (bit - 8);
      for (const std::uint64_t value : {middle - 1, middle, middle + 1}) {
        check(value);
        if (value >> 63 == 0) {
          check(static_cast<std::int64_t>(value));
          check(-static_cast<std::int64_t>(value));
        }
      }
    }
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 50'000; ++i) {
    const std::uint64_t value = random() >> (i % 64);
    check(value);
    check(static_cast<std::int64_t>(value));
    check(static_cast<std::int32_t>(value));
    check(static_cast<std::uint8_t>(value));
  }
  check(std::numeric_limits<std::uint64_t>::max());
  check(std::numeric_limits<std::int64_t>::min());
  check(0);
  check(true);
  CHECK_NO_MISTAKES(mistakes);
}

TEST_CASE("a 64-bit integer beside a bfloat16 midpoint is not rounded twice", "[dtype][host]") {
  // 2^62 + 2^54 lies half-way between neighbours; one more decides, and does not fit a double.
  const std::int64_t middle = (std::int64_t(1) << 62) + (std::int64_t(1) << 54);
  CHECK(static_cast<float>(bf16(middle)) == 0x1p62f);
  CHECK(static_cast<float>(bf16(middle + 1)) == 0x1.02p62f);
  CHECK(static_cast<float>(bf16(-middle - 1)) == -0x1.02p62f);
}

TEMPLATE_LIST_TEST_CASE("numeric_limits of small floats describe the format", "[dtype][host]", SmallFloats) {
  using R = Reference<TestType>;
  using Limits = std::numeric_limits<TestType>;
  const Reference<TestType> reference;
  const double largest = reference.values()[reference.values().size() - 2];
  STATIC_CHECK(Limits::is_specialized);
  CHECK(Limits::max() == largest);
  CHECK(Limits::lowest() == -largest);
  CHECK(Limits::denorm_min() == reference.values()[1]);
  CHECK(Limits::min() == std::ldexp(1.0, 1 - R::kBias));
  CHECK(Limits::epsilon() == std::ldexp(1.0, -R::kMantissaBits));
  CHECK(std::isnan(static_cast<float>(Limits::quiet_NaN())));
  CHECK(Limits::has_infinity == !R::kIsE4m3);
  CHECK(Limits::infinity() == (R::kIsE4m3 ? 0.0f : HUGE_VALF));
  CHECK(Limits::digits == R::kMantissaBits + 1);
  // As the standard defines them: the powers of two around the normal numbers, plus one.
  CHECK(std::ilogb(static_cast<float>(Limits::max())) == Limits::max_exponent - 1);
  CHECK(std::ilogb(static_cast<float>(Limits::min())) == Limits::min_exponent - 1);
}

TEST_CASE("small floats compute as floats and convert while compiling", "[dtype][host]") {
  constexpr f16 one = 1, half = 0.5;
  STATIC_CHECK(std::same_as<decltype(one + half), float>);
  STATIC_CHECK(one + half == 1.5f);
  STATIC_CHECK(f16(65504).bits == 0x7bff);
  STATIC_CHECK(f16(0x1p-24).bits == 1);
  STATIC_CHECK(static_cast<float>(bf16::from_bits(0x3fc0)) == 1.5f);
  STATIC_CHECK(static_cast<float>(f8e4m3::from_bits(0x7e)) == 448.0f);
  STATIC_CHECK(f8e4m3(464.0f).bits == 0x7e);
  STATIC_CHECK(f8e4m3(465.0f).bits == 0x7f);
  STATIC_CHECK(static_cast<float>(f8e5m2::from_bits(0x7b)) == 57344.0f);
  STATIC_CHECK(std::is_trivially_copyable_v<f16>);
  f16 value = 2;
  value = value * 3 + one;
  CHECK(value == 7.0f);
}
