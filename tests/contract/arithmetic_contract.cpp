#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "support/arithmetic_cases.hpp"
#include "support/communicator_group.hpp"
#include "support/dtypes.hpp"
#include "support/operands.hpp"

/// Kernels and collectives give what the table of arithmetic's rules says.
namespace lockstep::test {
namespace {

using backend::BinaryOp;
using backend::ScatterOp;
using backend::UnaryOp;

/// The cases of one rule, as columns.
template <class T>
struct Columns {
  std::vector<T> a, b, expected;

  explicit Columns(Rule of) {
    for (const auto& [rule, left, right, result] : arithmetic_cases<T>()) {
      if (rule != of) continue;
      a.push_back(left);
      b.push_back(right);
      expected.push_back(result);
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(a.size()); }
};

/// a[i] op b[i] by scatter_rows, which writes row i of b to row i of a.
template <class T>
std::vector<T> scattered(ScatterOp op, const Columns<T>& columns) {
  const std::int64_t n = columns.size();
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n) + 1);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto out = operand<T>(columns.a), in = operand<T>(columns.b);
  const auto indices = operand<std::int64_t>(numbers);
  TensorView rows = indices.view();
  rows.shape = Shape(n);
  test_kernels().scatter_rows(op, out.view(Shape(n, 1)), in.view(Shape(n, 1)), {rows, indices.view(), rows},
                              test_stream().handle());
  return out.values();
}

/// The same by reduce_axis, along the first axis of [a, b].
template <class T>
std::vector<T> reduced(ReduceOp op, const Columns<T>& columns) {
  std::vector<T> both = columns.a;
  both.insert(both.end(), columns.b.begin(), columns.b.end());
  const auto in = operand<T>(both);
  const auto out = result<T>(columns.size());
  test_kernels().reduce_axis(op, out.view(), in.view(), {1, 2, columns.size()}, 1, test_stream().handle());
  return out.values();
}

/// The same by all_reduce, where rank 0 has a, and rank 1 b.
template <class T>
std::vector<T> all_reduced(ReduceOp op, const Columns<T>& columns) {
  CommunicatorGroup group(2);
  const RankBuffers<T> values(group, {columns.a, columns.b});
  group.communicator().all_reduce(op, values.views(), values.views(), group.streams());
  REQUIRE(same(values[0].values(), values[1].values()));
  return values[0].values();
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("element-wise kernels follow the rules of arithmetic", "[kernels]", NumericTypes) {
  using T = TestType;
  const std::pair<Rule, BinaryOp> binary[] = {{Rule::sum, BinaryOp::add},
                                              {Rule::difference, BinaryOp::subtract},
                                              {Rule::product, BinaryOp::multiply},
                                              {Rule::quotient, BinaryOp::divide},
                                              {Rule::relu_gradient, BinaryOp::relu_gradient}};
  for (const auto& [rule, op] : binary) {
    INFO(name(op));
    const Columns<T> columns(rule);
    const auto a = operand<T>(columns.a), b = operand<T>(columns.b);
    test_kernels().binary(op, a.view(), a.view(), b.view(), test_stream().handle());
    CHECK(same(a.values(), columns.expected));
  }
  const std::pair<Rule, UnaryOp> unary[] = {{Rule::negated, UnaryOp::negate}, {Rule::relu, UnaryOp::relu}};
  for (const auto& [rule, op] : unary) {
    INFO(name(op));
    const Columns<T> columns(rule);
    const auto a = operand<T>(columns.a);
    test_kernels().unary(op, a.view(), a.view(), test_stream().handle());
    CHECK(same(a.values(), columns.expected));
  }
}

TEMPLATE_LIST_TEST_CASE("scattered rows follow the rules of arithmetic", "[kernels]", NumericTypes) {
  using T = TestType;
  const std::pair<Rule, ScatterOp> ops[] = {
      {Rule::sum, ScatterOp::add},          {Rule::difference, ScatterOp::subtract},
      {Rule::product, ScatterOp::multiply}, {Rule::quotient, ScatterOp::divide},
      {Rule::min, ScatterOp::min},          {Rule::max, ScatterOp::max}};
  for (const auto& [rule, op] : ops) {
    INFO(name(op));
    const Columns<T> columns(rule);
    CHECK(same(scattered(op, columns), columns.expected));
  }
}

TEMPLATE_LIST_TEST_CASE("reductions along axes and over ranks follow the rules of arithmetic",
                        "[kernels][collectives]", NumericTypes) {
  using T = TestType;
  const std::pair<Rule, ReduceOp> ops[] = {{Rule::sum, ReduceOp::sum},
                                           {Rule::product, ReduceOp::product},
                                           {Rule::min, ReduceOp::min},
                                           {Rule::max, ReduceOp::max}};
  for (const auto& [rule, op] : ops) {
    INFO(name(op));
    const Columns<T> columns(rule);
    CHECK(same(reduced(op, columns), columns.expected));
    if (TestBackend::num_devices() > 1) CHECK(same(all_reduced(op, columns), columns.expected));
  }
}

TEMPLATE_TEST_CASE("products and quotients of all pairs of 8-bit floats are rounded once", "[kernels]",
                   f8e4m3, f8e5m2) {
  using T = TestType;
  std::vector<T> left, right, products, quotients;
  for (int i = 0; i < 65536; ++i) {
    const T a = T::from_bits(static_cast<std::uint8_t>(i / 256)),
            b = T::from_bits(static_cast<std::uint8_t>(i));
    left.push_back(a);
    right.push_back(b);
    products.push_back(static_cast<T>(static_cast<float>(a) * static_cast<float>(b)));
    quotients.push_back(static_cast<T>(static_cast<float>(a) / static_cast<float>(b)));
  }
  const auto a = operand<T>(left), b = operand<T>(right), out = result<T>(65536);
  test_kernels().binary(BinaryOp::multiply, out.view(), a.view(), b.view(), test_stream().handle());
  CHECK(same(out.values(), products));
  test_kernels().binary(BinaryOp::divide, out.view(), a.view(), b.view(), test_stream().handle());
  CHECK(same(out.values(), quotients));
}

TEMPLATE_TEST_CASE("narrow integers are multiplied in 64 bits", "[kernels]", std::int8_t, std::int16_t,
                   std::uint8_t, std::uint16_t) {
  using T = TestType;
  using A = accumulator_t<T>;
  struct Extents {
    std::int64_t outer, axis, inner;
  };
  const auto [outer, axis, inner] =
      GENERATE(values<Extents>({{3, 4099, 1}, {2, 100, 256}, {1, 300, 5}, {40, 16, 1}}));
  // Odd, so that no product becomes 0, and the extremes.
  const auto at = [](std::int64_t i) -> T {
    constexpr std::int64_t kLowest = std::numeric_limits<T>::lowest(),
                           kLargest = std::numeric_limits<T>::max();
    const std::int64_t odd[] = {3, kLargest, kLowest + 1, 1, -5, 7};
    return static_cast<T>(odd[i % 6] | 1);
  };
  std::vector<A> expected;
  for (std::int64_t i = 0; i < outer * inner; ++i) {
    std::uint64_t product = 1;
    for (std::int64_t k = 0; k < axis; ++k)
      product *= static_cast<std::uint64_t>(static_cast<A>(at((i / inner * axis + k) * inner + i % inner)));
    expected.push_back(static_cast<A>(product));
  }
  const auto in = operand<T>(elements<T>(outer * axis * inner, at), GENERATE(0, 1, 16));
  const auto out = result<A>(outer * inner);
  test_kernels().reduce_axis(ReduceOp::product, out.view(), in.view(), {outer, axis, inner}, 1,
                             test_stream().handle());
  CHECK(out.values() == expected);
}

}  // namespace lockstep::test
