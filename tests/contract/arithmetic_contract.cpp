#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

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

}  // namespace lockstep::test
