#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/detail/saturate_cast.hpp>
#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/tensor.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/operands.hpp"

namespace lockstep::test {
namespace {

using backend::AxisExtents;

void reduce(ReduceOp op, const TensorView& out, const TensorView& in, const AxisExtents& extents,
            double divisor = 1) {
  test_kernels().reduce_axis(op, out, in, extents, divisor, test_stream().handle());
}

/// Whole and partial blocks along each extent: rows, columns, middle axes, narrow and wide.
AxisExtents any_extents() {
  return GENERATE(values<AxisExtents>(
      {{1, 1, 1},    {3, 1, 5},     {1, 2, 1},     {5, 3, 1},    {1025, 2, 1},  {700, 3, 2},
       {3, 17, 1},   {2, 31, 1},    {2, 33, 1},    {3, 129, 1},  {2, 1025, 1},  {1, 70001, 1},
       {1, 7, 3},    {1, 300, 2},   {2, 65, 64},   {1, 257, 31}, {1, 600, 127}, {2, 3, 1025},
       {1, 2, 9001}, {1, 520, 513}, {1, 40000, 3}, {4, 3, 2},    {1, 16385, 5}, {1, 5, 8193}}));
}

using Element = std::function<std::int64_t(std::int64_t)>;
using Combine = std::int64_t (*)(std::int64_t, std::int64_t);

/// The reduction along the middle axis, in 64-bit integers: small whole numbers, so that every dtype's own
/// sum is exact.
std::vector<std::int64_t> reference(const AxisExtents& extents, const Element& element, Combine combine) {
  std::vector<std::int64_t> results;
  for (std::int64_t outer = 0; outer < extents.outer; ++outer) {
    for (std::int64_t inner = 0; inner < extents.inner; ++inner) {
      std::int64_t result = element(outer * extents.axis * extents.inner + inner);
      for (std::int64_t axis = 1; axis < extents.axis; ++axis) {
        result = combine(result, element((outer * extents.axis + axis) * extents.inner + inner));
      }
      results.push_back(result);
    }
  }
  return results;
}

std::int64_t size(const AxisExtents& extents) { return extents.outer * extents.axis * extents.inner; }
std::int64_t out_size(const AxisExtents& extents) { return extents.outer * extents.inner; }

template <class T>
void check(ReduceOp op, const AxisExtents& extents, const Element& element, Combine combine) {
  INFO(op << " of [" << extents.outer << ", " << extents.axis << ", " << extents.inner << "]");
  const auto in = operand<T>(elements<T>(size(extents), element));
  const auto out = result<T>(out_size(extents));
  reduce(op, out.view(), in.view(), extents);
  std::vector<T> expected;
  for (const std::int64_t value : reference(extents, element, combine)) {
    expected.push_back(detail::saturate_cast<T>(detail::saturate_cast<accumulator_t<T>>(value)));
  }
  CHECK(same(out.values(), expected));
  CHECK(out.guards_intact());
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("P29 P34 sums along any axis, at odd lengths and addresses", "[reduce]",
                        NumericTypes) {
  check<TestType>(
      ReduceOp::sum, any_extents(), [](std::int64_t i) { return i % 4; },
      [](std::int64_t a, std::int64_t b) { return a + b; });
}

TEMPLATE_LIST_TEST_CASE("products along any axis", "[reduce]", NumericTypes) {
  // So few twos that products are exact where they are finite.
  check<TestType>(
      ReduceOp::product, any_extents(), [](std::int64_t i) { return i % 4099 == 1 ? 2 : 1; },
      [](std::int64_t a, std::int64_t b) { return a * b; });
}

TEMPLATE_LIST_TEST_CASE("smallest and largest along any axis", "[reduce]", NumericTypes) {
  const AxisExtents extents = any_extents();
  const std::int64_t lowest = std::numeric_limits<TestType>::is_signed ? -4 : 0;
  // Seldom an extreme, so that none can be found by accident.
  const auto element = [&](std::int64_t i) {
    return lowest + (i % 101 == 7 ? 0 : i % 97 == 3 ? 8 : 3 + i % 3);
  };
  check<TestType>(ReduceOp::min, extents, element,
                  [](std::int64_t a, std::int64_t b) { return std::min(a, b); });
  check<TestType>(ReduceOp::max, extents, element,
                  [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
}

TEMPLATE_LIST_TEST_CASE("sums are written in the accumulator's dtype, and divided before the one rounding",
                        "[reduce]", NumericTypes) {
  using T = TestType;
  using A = accumulator_t<T>;
  const AxisExtents extents = GENERATE(values<AxisExtents>({{3, 7, 1}, {2, 300, 5}, {1, 40000, 1}}));
  const auto element = [](std::int64_t i) { return i % 4; };
  const auto sums = reference(extents, element, [](std::int64_t a, std::int64_t b) { return a + b; });
  const auto in = operand<T>(elements<T>(size(extents), element));

  const auto wide = result<A>(out_size(extents));
  reduce(ReduceOp::sum, wide.view(), in.view(), extents);
  CHECK(wide.values() ==
        elements<A>(out_size(extents), [&](std::int64_t i) { return sums[static_cast<std::size_t>(i)]; }));

  dispatch(reduced_dtype(ReduceOp::mean, dtype_of<T>), [&]<class M>() {
    using Quotient = std::conditional_t<std::integral<T>, double, A>;
    const double divisor = static_cast<double>(extents.axis) + 3;
    const auto mean = result<M>(out_size(extents));
    reduce(ReduceOp::sum, mean.view(), in.view(), extents, divisor);
    std::vector<HostElement<M>> expected;
    for (const std::int64_t sum : sums) {
      expected.push_back(detail::saturate_cast<M>(
          static_cast<Quotient>(static_cast<Quotient>(sum) / static_cast<Quotient>(divisor))));
    }
    CHECK(mean.values() == expected);
    CHECK(mean.guards_intact());
  });
}

TEST_CASE("P06 long half-precision sums are added in float and rounded once", "[reduce]") {
  const auto b = operand<bf16>(std::vector<bf16>(70000, bf16(1.0f)));
  const auto b_sum = result<bf16>(1);
  reduce(ReduceOp::sum, b_sum.view(), b.view(), {1, 70000, 1});
  CHECK(static_cast<float>(b_sum.values()[0]) == 70144.0f);

  const auto h = operand<f16>(std::vector<f16>(20000, f16(1.0f)));
  const auto h_sum = result<f16>(1);
  reduce(ReduceOp::sum, h_sum.view(), h.view(), {1, 20000, 1});
  CHECK(static_cast<float>(h_sum.values()[0]) == 20000.0f);
}

TEST_CASE("P05 the mean of large halves does not overflow", "[reduce]") {
  const auto in = operand<f16>(std::vector<f16>(64, f16(60000.0f)));
  const auto out = result<f16>(1);
  reduce(ReduceOp::sum, out.view(), in.view(), {1, 64, 1}, 64);
  CHECK(out.values()[0] == f16(60000.0f));
}

TEMPLATE_TEST_CASE("P05 means do not overflow where their sums do", "[reduce]", bf16, float, double) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  const auto large = static_cast<T>(std::ldexp(1.0, Limits::max_exponent - 1));  // its sums are exact
  const auto negative = static_cast<T>(-static_cast<double>(large));
  const auto [outer, axis, inner] = GENERATE(values<AxisExtents>(
      {{4, 7, 1}, {4, 300, 1}, {2, 300000, 1}, {3, 40, 3}, {1, 50000, 5}, {2, 9, 70}, {1, 3000, 300}}));
  INFO(outer << " x " << axis << " x " << inner);
  // The results' elements, in turn: a large number, its negative, one infinity, ones.
  std::vector<T> values;
  for (std::int64_t i = 0; i < outer * axis * inner; ++i) {
    const std::int64_t result = i / (axis * inner) * inner + i % inner;
    const bool is_first = i / inner % axis == 0;
    values.push_back(result % 4 == 0   ? large
                     : result % 4 == 1 ? negative
                     : result % 4 == 2 ? (is_first ? Limits::infinity() : static_cast<T>(1))
                                       : static_cast<T>(1));
  }
  const auto in = operand<T>(values);
  const auto out = result<T>(outer * inner);
  reduce(ReduceOp::sum, out.view(), in.view(), {outer, axis, inner}, static_cast<double>(axis));
  const auto means = out.values();
  for (std::int64_t r = 0; r < outer * inner; ++r) {
    INFO("result " << r);
    CHECK(means[static_cast<std::size_t>(r)] == (r % 4 == 0   ? large
                                                 : r % 4 == 1 ? negative
                                                 : r % 4 == 2 ? Limits::infinity()
                                                              : static_cast<T>(1)));
  }
  CHECK(out.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("P07 sums and products of integers wrap in their dtype", "[reduce]", IntegerTypes) {
  using T = TestType;
  constexpr T kMax = std::numeric_limits<T>::max();
  const std::int64_t n = GENERATE(3, 400, 20001);
  const auto in = operand<T>(std::vector<T>(static_cast<std::size_t>(n), kMax));
  const auto out = result<T>(1);
  reduce(ReduceOp::sum, out.view(), in.view(), {1, n, 1});
  CHECK(out.values()[0] == static_cast<T>(static_cast<std::uint64_t>(kMax) * static_cast<std::uint64_t>(n)));
  reduce(ReduceOp::product, out.view(), in.view(), {1, n, 1});
  CHECK(out.values()[0] == static_cast<T>(n % 2 == 0 ? 1 : kMax));  // kMax·kMax is 1, modulo any power of two
}

TEMPLATE_LIST_TEST_CASE("P33 an empty axis gives the identity", "[reduce]", NumericTypes) {
  using T = TestType;
  const auto out = result<T>(3);
  const TensorView nothing(static_cast<void*>(nullptr), Shape(3, 0), dtype_of<T>, test_stream().device());
  reduce(ReduceOp::product, out.view(), nothing, {3, 0, 1});
  CHECK(out.values() == std::vector<T>(3, static_cast<T>(1)));
  reduce(ReduceOp::sum, out.view(), nothing, {3, 0, 1});
  CHECK(out.values() == std::vector<T>(3, static_cast<T>(0)));
  reduce(ReduceOp::product, out.view(), nothing, {1, 0, 3});
  CHECK(out.values() == std::vector<T>(3, static_cast<T>(1)));
  CHECK(out.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("P46 NaN wins min and max wherever it stands, on any axis", "[reduce]",
                        FloatingTypes) {
  using T = TestType;
  const std::int64_t axis = GENERATE(4, 33, 1025);
  const std::int64_t inner = GENERATE(1, 3, 70);
  for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, axis / 2, axis - 1}) {
    INFO("axis " << axis << ", inner " << inner << ", NaN at " << position);
    auto values = elements<T>(axis * inner, [](std::int64_t i) { return i % 7 + 1; });
    values[static_cast<std::size_t>(position * inner)] = std::numeric_limits<T>::quiet_NaN();
    const auto in = operand<T>(values);
    const auto out = result<T>(inner);
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      reduce(op, out.view(), in.view(), {1, axis, inner});
      const auto results = out.values();
      CHECK(std::isnan(static_cast<double>(results[0])));
      CHECK(std::none_of(results.begin() + 1, results.end(),
                         [](T x) { return std::isnan(static_cast<double>(x)); }));
    }
  }
  const auto all = operand<T>(std::vector<T>(2, std::numeric_limits<T>::quiet_NaN()));
  const auto out = result<T>(1);
  reduce(ReduceOp::min, out.view(), all.view(), {1, 2, 1});
  CHECK(std::isnan(static_cast<double>(out.values()[0])));
}

TEMPLATE_LIST_TEST_CASE("min and max of infinities are infinite", "[reduce]", WideFloatingTypes) {
  constexpr TestType kInfinity = std::numeric_limits<TestType>::infinity();
  const std::int64_t n = GENERATE(1, 5, 1025);
  const auto out = result<TestType>(1);
  const auto low = operand<TestType>(std::vector<TestType>(static_cast<std::size_t>(n), -kInfinity));
  reduce(ReduceOp::max, out.view(), low.view(), {1, n, 1});
  CHECK(out.values()[0] == -kInfinity);
  const auto high = operand<TestType>(std::vector<TestType>(static_cast<std::size_t>(n), kInfinity));
  reduce(ReduceOp::min, out.view(), high.view(), {1, n, 1});
  CHECK(out.values()[0] == kInfinity);
}

TEST_CASE("P35 a sum repeated 1000 times gives one bit pattern", "[reduce]") {
  const auto in = operand<double>(std::vector<double>(250000, 0.1), 0);
  const AxisExtents extents = GENERATE(values<AxisExtents>({{1, 250000, 1}, {1, 2500, 100}}));
  const auto out = result<double>(extents.inner);
  reduce(ReduceOp::sum, out.view(), in.view(), extents);
  const std::vector<double> first = out.values();
  CHECK(std::abs(first[0] - 0.1 * static_cast<double>(extents.axis)) < 1e-9);
  const int rounds = kSlowBuild ? 20 : 1000;
  int different = 0;
  for (int i = 0; i < rounds; ++i) {
    reduce(ReduceOp::sum, out.view(), in.view(), extents);
    different += out.values() != first;
  }
  CHECK(different == 0);
}

TEST_CASE("P35 the address of a tensor does not change its sums", "[reduce]") {
  const AxisExtents extents = GENERATE(values<AxisExtents>(
      {{1, 100003, 1}, {40, 1001, 1}, {700, 37, 1}, {90, 5, 7}, {3, 511, 63}, {2, 64, 256}, {2, 40, 1001}}));
  const auto values =
      elements<float>(size(extents), [](std::int64_t i) { return 0.1f * static_cast<float>(i % 1000); });
  const auto out = result<float>(out_size(extents));
  const auto aligned = operand<float>(values, 0);
  reduce(ReduceOp::sum, out.view(), aligned.view(), extents);
  const std::vector<float> first = out.values();
  for (const std::size_t offset : {4, 8, 12, 36, 252}) {
    const auto moved = operand<float>(values, offset);
    reduce(ReduceOp::sum, out.view(), moved.view(), extents);
    CHECK(out.values() == first);
  }
}

TEST_CASE("long float sums keep their accuracy", "[reduce]") {
  // One after the other, the last thousands of these additions would each lose 2 or 3 bits.
  const std::int64_t n = 4000037;
  const Tensor in = Tensor::full(Shape(n), 0.1f, DType::f32, TestBackend::device());
  const auto out = result<float>(1);
  reduce(ReduceOp::sum, out.view(), in.view(), {1, n, 1});
  const double exact = static_cast<double>(0.1f) * static_cast<double>(n);
  CHECK(std::abs(static_cast<double>(out.values()[0]) - exact) < 1e-6 * exact);

  const auto columns = result<float>(3);
  reduce(ReduceOp::sum, columns.view(), in.view(), {1, n / 3, 3});
  const double exact_third = static_cast<double>(0.1f) * static_cast<double>(n / 3);
  for (const float sum : columns.values())
    CHECK(std::abs(static_cast<double>(sum) - exact_third) < 1e-6 * exact_third);
}

TEST_CASE("P32 more than 2^31 rows", "[reduce]") {
  if (kSlowBuild) SKIP("2 GiB under a sanitizer");
  const std::int64_t rows = (std::int64_t{1} << 31) + 11;
  const Tensor in = Tensor::ones(Shape(rows), DType::u8, TestBackend::device());
  Tensor last = in.slice(rows - 1, rows);
  last.fill_(3);
  const auto out = result<std::uint64_t>(1);
  reduce(ReduceOp::sum, out.view(), in.view(), {1, rows, 1});
  CHECK(out.values()[0] == static_cast<std::uint64_t>(rows) + 2);
  const auto largest = result<std::uint8_t>(1);
  reduce(ReduceOp::max, largest.view(), in.view(), {1, rows, 1});
  CHECK(largest.values()[0] == 3);
}

TEST_CASE("P32 300000000 doubles are right at the first, middle and last element", "[reduce]") {
  if (kSlowBuild) SKIP("2.4 GB under a sanitizer");
  const std::int64_t n = 300000000;
  Tensor t = Tensor::full(Shape(n), 1.5, DType::f64, TestBackend::device());
  t.add_(t);
  for (const std::int64_t i : {std::int64_t{0}, n / 2, n - 1}) CHECK(t.slice(i, i + 1).item<double>() == 3.0);
  const auto out = result<double>(1);
  reduce(ReduceOp::sum, out.view(), t.view(), {1, n, 1});
  CHECK(out.values()[0] == 900000000.0);
}

TEMPLATE_LIST_TEST_CASE("argmax is the first of the largest, along any axis", "[reduce]", NumericTypes) {
  using T = TestType;
  const AxisExtents extents = GENERATE(values<AxisExtents>({{1, 1, 1},
                                                            {5, 3, 1},
                                                            {3, 1025, 1},
                                                            {2, 7, 3},
                                                            {1, 33, 1025},
                                                            {4, 2, 2},
                                                            {1, 70001, 1},
                                                            {1, 40000, 3},
                                                            {2, 300, 64}}));
  const auto element = [](std::int64_t i) { return i * 5 % 7; };
  const auto in = operand<T>(elements<T>(size(extents), element));
  const auto out = result<std::int64_t>(out_size(extents));
  test_kernels().argmax(out.view(), in.view(), extents, test_stream().handle());
  const auto indices = out.values();
  for (std::int64_t outer = 0; outer < extents.outer; ++outer) {
    for (std::int64_t inner = 0; inner < extents.inner; ++inner) {
      std::int64_t best = 0;
      const auto at = [&](std::int64_t axis) {
        return element((outer * extents.axis + axis) * extents.inner + inner);
      };
      for (std::int64_t axis = 1; axis < extents.axis; ++axis) best = at(axis) > at(best) ? axis : best;
      REQUIRE(indices[static_cast<std::size_t>(outer * extents.inner + inner)] == best);
    }
  }
  CHECK(out.guards_intact());
}

TEMPLATE_LIST_TEST_CASE("P46 NaN is the largest for argmax, the first of several", "[reduce]",
                        FloatingTypes) {
  using T = TestType;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto in = operand<T>({T(3.0f), nan, T(7.0f), nan});
  const auto out = result<std::int64_t>(1);
  test_kernels().argmax(out.view(), in.view(), {1, 4, 1}, test_stream().handle());
  CHECK(out.values() == std::vector<std::int64_t>{1});
  const auto columns = result<std::int64_t>(2);
  test_kernels().argmax(columns.view(), in.view(), {1, 2, 2}, test_stream().handle());
  CHECK(columns.values() == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("P07 booleans have no reductions", "[reduce]") {
  const std::string device = test_stream().device().to_string();
  const auto in = operand<bool>({1, 0});
  const auto out = result<bool>(1);
  const auto index = result<std::int64_t>(1);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
    CHECK_THROWS_MATCHES(reduce(op, out.view(), in.view(), {1, 2, 1}), Unsupported,
                         says(std::string(name(op)), "bool", device));
  }
  CHECK_THROWS_MATCHES(test_kernels().argmax(index.view(), in.view(), {1, 2, 1}, test_stream().handle()),
                       Unsupported, says("argmax", "bool", device));
  CHECK(out.values() == std::vector<std::uint8_t>{1});
}

TEST_CASE("sums of floats in f64 hold what floats cannot", "[kernels]") {
  const std::int64_t length = GENERATE(2, 17, 1025, 70001);
  const auto reduced = [&](double value, DType dtype, double divisor) {
    const Tensor in = Tensor::full({2, length}, value, dtype, TestBackend::device());
    const Tensor out = reduce_axes(ReduceOp::sum, in, 1, DType::f64, divisor);
    return out.to_vector<double>()[1];
  };
  const auto n = static_cast<double>(length);
  CHECK(reduced(0x1p127, DType::f32, 1) == n * 0x1p127);
  CHECK(reduced(0x1p127, DType::bf16, 1) == n * 0x1p127);
  CHECK(reduced(0x1p15, DType::f16, 1) == n * 0x1p15);
  CHECK(reduced(0x1p-149, DType::f32, 1) == n * 0x1p-149);
  CHECK(reduced(0x1p-149, DType::f32, 4 * n) == 0x1p-151);
  CHECK(std::isinf(reduced(INFINITY, DType::f32, 1)));
  CHECK(std::isnan(reduced(NAN, DType::f32, 1)));
  CHECK(reduced(0x1p1000, DType::f64, n) == 0x1p1000);
}

}  // namespace lockstep::test
