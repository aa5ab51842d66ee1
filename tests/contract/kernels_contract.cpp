#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/operands.hpp"

namespace lockstep::test {
namespace {

using backend::BinaryOp;
using backend::UnaryOp;

void binary(BinaryOp op, const TensorView& out, const TensorView& a, const TensorView& b) {
  test_kernels().binary(op, out, a, b, test_stream().handle());
}

void unary(UnaryOp op, const TensorView& out, const TensorView& in) {
  test_kernels().unary(op, out, in, test_stream().handle());
}

constexpr BinaryOp kArithmetic[] = {BinaryOp::add, BinaryOp::subtract, BinaryOp::multiply, BinaryOp::divide,
                                    BinaryOp::relu_gradient};

/// What `op` gives for small whole numbers, as T: arithmetic on small floats is float arithmetic, integers
/// wrap.
template <class T>
T expected_binary(BinaryOp op, T a, T b) {
  if constexpr (std::integral<T>) {
    const auto x = static_cast<std::int64_t>(a);
    const auto y = static_cast<std::int64_t>(b);
    switch (op) {
      case BinaryOp::add: return static_cast<T>(x + y);
      case BinaryOp::subtract: return static_cast<T>(x - y);
      case BinaryOp::multiply: return static_cast<T>(x * y);
      case BinaryOp::divide: return static_cast<T>(y == 0 ? 0 : x / y);
      default: return y > 0 ? a : T(0);
    }
  } else {
    switch (op) {
      case BinaryOp::add: return static_cast<T>(a + b);
      case BinaryOp::subtract: return static_cast<T>(a - b);
      case BinaryOp::multiply: return static_cast<T>(a * b);
      case BinaryOp::divide: return static_cast<T>(a / b);
      default: return b > T(0.0f) ? a : T(0.0f);
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("P29 binary arithmetic at odd lengths and addresses, in place and out of place",
                        "[kernels]", NumericTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 3, 5, 17, 31, 33, 127, 129, 1025);
  const auto a_values = pattern_elements<T>(n);
  const auto b_values = elements<T>(n, [](std::int64_t i) { return i % 3; });
  for (const BinaryOp op : kArithmetic) {
    INFO("op " << static_cast<int>(op) << ", " << n << " elements");
    std::vector<T> expected;
    for (std::size_t i = 0; i < a_values.size(); ++i)
      expected.push_back(expected_binary<T>(op, a_values[i], b_values[i]));

    const auto a = operand<T>(a_values);
    const auto b = operand<T>(b_values);
    const auto out = result<T>(n);
    binary(op, out.view(), a.view(), b.view());
    CHECK(same(out.values(), expected));
    CHECK(out.guards_intact());
    CHECK(a.values() == a_values);
    CHECK(b.values() == b_values);

    binary(op, a.view(), a.view(), b.view());
    CHECK(same(a.values(), expected));
    CHECK(a.guards_intact());
  }
}

TEMPLATE_LIST_TEST_CASE("a single element meets every element of the other operand", "[kernels]",
                        NumericTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 17, 1025);
  const auto values = pattern_elements<T>(n);
  for (const BinaryOp op : kArithmetic) {
    INFO("op " << static_cast<int>(op) << ", " << n << " elements");
    const auto many = operand<T>(values);
    const auto one = operand<T>({static_cast<T>(2)});
    const auto out = result<T>(n);
    std::vector<T> left, right;
    for (const T value : values) {
      left.push_back(expected_binary<T>(op, static_cast<T>(2), value));
      right.push_back(expected_binary<T>(op, value, static_cast<T>(2)));
    }
    binary(op, out.view(), one.view(), many.view());
    CHECK(same(out.values(), left));
    binary(op, out.view(), many.view(), one.view());
    CHECK(same(out.values(), right));
    CHECK(out.guards_intact());
  }
}

TEMPLATE_LIST_TEST_CASE("a single element may be the first of the output", "[kernels]", NumericTypes) {
  using T = TestType;
  const std::int64_t n = 2049;
  const auto out = operand<T>(elements<T>(n, [](std::int64_t) { return 2; }));
  TensorView first = out.view();
  first.shape = Shape(1);
  binary(BinaryOp::add, out.view(), out.view(), first);
  CHECK(out.values() == elements<T>(n, [](std::int64_t) { return 4; }));
}

TEMPLATE_LIST_TEST_CASE("integers wrap, and dividing by zero gives 0", "[kernels]", IntegerTypes) {
  using T = TestType;
  constexpr T kMin = std::numeric_limits<T>::min();
  constexpr T kMax = std::numeric_limits<T>::max();
  constexpr T kMinusOne = static_cast<T>(-1);
  const auto a = operand<T>({kMax, kMin, kMin, kMax, T(7), kMin});
  const auto b = operand<T>({T(1), T(1), kMax, T(0), T(0), kMinusOne});
  const auto out = result<T>(6);

  binary(BinaryOp::add, out.view(), a.view(), b.view());
  CHECK(out.values() == std::vector<T>{kMin, T(kMin + 1), T(kMin + kMax), kMax, T(7), kMax});
  binary(BinaryOp::subtract, out.view(), a.view(), b.view());
  CHECK(out.values()[1] == kMax);
  binary(BinaryOp::multiply, out.view(), a.view(), a.view());
  CHECK(out.values() == std::vector<T>{T(1), T(0), T(0), T(1), T(49), T(0)});
  binary(BinaryOp::divide, out.view(), a.view(), b.view());
  const T opposite = std::signed_integral<T> ? kMin : T(0);  // of the lowest signed number; 0 / max otherwise
  CHECK(out.values() == std::vector<T>{kMax, kMin, static_cast<T>(kMin / kMax), T(0), T(0), opposite});
  unary(UnaryOp::negate, out.view(), a.view());
  constexpr T kOppositeOfMax = static_cast<T>(kMin + 1);  // in both kinds
  CHECK(out.values() == std::vector<T>{kOppositeOfMax, kMin, kMin, kOppositeOfMax, static_cast<T>(-7), kMin});
}

TEMPLATE_LIST_TEST_CASE("equal compares every dtype, booleans included", "[kernels]", AllTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 33, 1025);
  const auto values = pattern_elements<T>(n);
  auto others = values;
  for (std::size_t i = 0; i < others.size(); i += 3)
    others[i] = static_cast<T>(!static_cast<bool>(values[i]));
  const auto a = operand<T>(values);
  const auto b = operand<T>(others);
  const auto out = result<bool>(n);
  binary(BinaryOp::equal, out.view(), a.view(), b.view());
  CHECK(out.values() == elements<bool>(n, [](std::int64_t i) { return i % 3 != 0; }));
  CHECK(out.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("NaN equals nothing, and the zeros are equal", "[kernels]", FloatingTypes) {
  using T = TestType;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto a = operand<T>({nan, T(0.0f), T(1.0f)});
  const auto b = operand<T>({nan, T(-0.0f), nan});
  const auto out = result<bool>(3);
  binary(BinaryOp::equal, out.view(), a.view(), b.view());
  CHECK(out.values() == std::vector<std::uint8_t>{0, 1, 0});
}

TEMPLATE_LIST_TEST_CASE("P29 functions of one number, at odd lengths and addresses", "[kernels]",
                        FloatingTypes) {
  using T = TestType;
  using C = accumulator_t<T>;
  const std::int64_t n = GENERATE(1, 3, 31, 129, 1025);
  const auto values = elements<T>(n, [](std::int64_t i) { return static_cast<float>(i % 7) / 4; });
  const auto in = operand<T>(values);
  const auto check = [&](UnaryOp op, auto function) {
    INFO("op " << static_cast<int>(op));
    std::vector<T> expected;
    for (const T value : values)
      expected.push_back(static_cast<T>(static_cast<C>(function(static_cast<double>(value)))));
    const auto out = result<T>(n);
    unary(op, out.view(), in.view());
    const auto actual = out.values();
    // The functions of a device and of the host's library may differ in the last place or two.
    const double tolerance = 2 * static_cast<double>(std::numeric_limits<T>::epsilon());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double x = static_cast<double>(expected[i]);
      const double y = static_cast<double>(actual[i]);
      CHECK((x == y || std::abs(x - y) <= tolerance * std::abs(x)));
    }
    CHECK(out.guards_intact());
  };
  check(UnaryOp::exp, [](double x) { return std::exp(x); });
  check(UnaryOp::sqrt, [](double x) { return std::sqrt(x); });
  if (std::numeric_limits<T>::has_infinity) check(UnaryOp::log, [](double x) { return std::log(x); });
}

TEMPLATE_LIST_TEST_CASE("negate and relu, in place and out of place", "[kernels]", NumericTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 31, 1025);
  const bool is_signed = std::numeric_limits<T>::is_signed;
  const auto in = operand<T>(elements<T>(n, [&](std::int64_t i) { return i % 8 - (is_signed ? 4 : 0); }));
  const auto out = result<T>(n);
  unary(UnaryOp::relu, out.view(), in.view());
  CHECK(out.values() == elements<T>(n, [&](std::int64_t i) {
          return std::max<std::int64_t>(i % 8 - (is_signed ? 4 : 0), 0);
        }));
  unary(UnaryOp::negate, in.view(), in.view());
  if (is_signed) CHECK(in.values() == elements<T>(n, [](std::int64_t i) { return 4 - i % 8; }));
  CHECK(in.guards_intact());
  CHECK(out.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("relu keeps NaN, and its gradient there is 0", "[kernels]", FloatingTypes) {
  using T = TestType;
  const auto in = operand<T>({std::numeric_limits<T>::quiet_NaN(), T(2.0f)});
  const auto gradient = operand<T>({T(3.0f), T(3.0f)});
  const auto out = result<T>(2);
  unary(UnaryOp::relu, out.view(), in.view());
  CHECK(same(out.values(), in.values()));
  binary(BinaryOp::relu_gradient, out.view(), gradient.view(), in.view());
  CHECK(out.values() == std::vector<T>{T(0.0f), T(3.0f)});
}

TEMPLATE_LIST_TEST_CASE("dividing by a host number is done in float, for integers in double and truncated",
                        "[kernels]", NumericTypes) {
  using T = TestType;
  const std::int64_t n = GENERATE(1, 33, 1025);
  const auto values = elements<T>(n, [](std::int64_t i) { return i % 8; });
  const auto in = operand<T>(values);
  std::vector<T> expected;
  for (const T value : values) {
    if constexpr (std::integral<T>)
      expected.push_back(static_cast<T>(static_cast<double>(value) / 3));
    else
      expected.push_back(static_cast<T>(static_cast<accumulator_t<T>>(value) / 3));
  }
  test_kernels().divide(in.view(), in.view(), 3, test_stream().handle());
  CHECK(in.values() == expected);
  CHECK(in.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("a row is added to every row of a matrix", "[kernels]", NumericTypes) {
  using T = TestType;
  const std::int64_t rows = GENERATE(1, 3);
  const std::int64_t columns = GENERATE(1, 17, 1025);
  const auto a = operand<T>(pattern_elements<T>(rows * columns));
  const auto b = operand<T>(elements<T>(columns, [](std::int64_t c) { return c % 3; }));
  const auto expected = elements<T>(rows * columns, [&](std::int64_t i) { return i % 4 + i % columns % 3; });
  const auto out = result<T>(rows * columns);
  const Shape shape(rows, columns);
  test_kernels().add_row(out.view(shape), a.view(shape), b.view(), test_stream().handle());
  CHECK(out.values() == expected);
  CHECK(out.guards_intact());
  test_kernels().add_row(a.view(shape), a.view(shape), b.view(), test_stream().handle());
  CHECK(a.values() == expected);
}

TEMPLATE_TEST_CASE("a row is added to rows of any length, at any two addresses", "[kernels]", float, double,
                   bf16, std::int8_t) {
  using T = TestType;
  const std::int64_t columns = GENERATE(3, 10, 131, 1001), rows = GENERATE(1, 40, 75);
  // They agree in vectors of 32 bytes, of 16, and in none; or elements begin at no multiple of their size.
  const auto [offset, out_offset] = GENERATE(
      table<std::size_t, std::size_t>({{0, 0}, {8, 8}, {24, 56}, {16, 0}, {8, 24}, {8, 0}, {1, 0}, {1, 1}}));
  const auto a = operand<T>(pattern_elements<T>(rows * columns), offset);
  const auto b = operand<T>(elements<T>(columns, [](std::int64_t c) { return c % 3; }));
  const auto out = operand<T>(elements<T>(rows * columns, [](std::int64_t) { return 1; }), out_offset);
  const Shape shape(rows, columns);
  test_kernels().add_row(out.view(shape), a.view(shape), b.view(), test_stream().handle());
  CHECK(out.values() == elements<T>(rows * columns, [&](std::int64_t i) { return i % 4 + i % columns % 3; }));
  CHECK(out.guards_intact());
}

TEST_CASE("arithmetic that a dtype does not have is refused before anything is written", "[kernels]") {
  const std::string device = test_stream().device().to_string();
  const auto flags = operand<bool>({1, 0, 1});
  const auto numbers = operand<std::int32_t>({1, 2, 3});
  for (const BinaryOp op : kArithmetic) {
    CHECK_THROWS_MATCHES(binary(op, flags.view(), flags.view(), flags.view()), Unsupported,
                         says("bool", "[3]", device));
  }
  CHECK_THROWS_MATCHES(unary(UnaryOp::negate, flags.view(), flags.view()), Unsupported,
                       says("negate", "bool", device));
  CHECK_THROWS_MATCHES(unary(UnaryOp::exp, numbers.view(), numbers.view()), Unsupported,
                       says("exp", "int32", "[3]", device));
  CHECK_THROWS_MATCHES(unary(UnaryOp::log, numbers.view(), numbers.view()), Unsupported,
                       says("log", "int32"));
  CHECK_THROWS_MATCHES(unary(UnaryOp::sqrt, flags.view(), flags.view()), Unsupported, says("sqrt", "bool"));
  CHECK_THROWS_MATCHES(test_kernels().divide(flags.view(), flags.view(), 2, test_stream().handle()),
                       Unsupported, says("divide", "bool", device));
  CHECK_THROWS_MATCHES(
      test_kernels().add_row(flags.view(), flags.view(), flags.view(), test_stream().handle()), Unsupported,
      says("add_row", "bool", device));
  CHECK(flags.values() == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(numbers.values() == std::vector<std::int32_t>{1, 2, 3});
}

}  // namespace lockstep::test
