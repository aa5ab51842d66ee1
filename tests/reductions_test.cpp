#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/error.hpp>
#include <lockstep/ops.hpp>
#include <lockstep/stream.hpp>

#include "support/dtypes.hpp"
#include "support/expected.hpp"
#include "support/lazy_device.hpp"
#include "support/matchers.hpp"

using namespace lockstep;
using lockstep::test::LazyDevice;
using lockstep::test::says;

using Doubles = std::vector<double>;

namespace {

/// What must come out, by one loop over all elements in double: the elements of each output, in order.
std::vector<Doubles> groups_of(const Tensor& t, const std::vector<int>& axes) {
  const Doubles values = t.cast(DType::f64).to_vector<double>();
  std::vector<bool> reduced(static_cast<std::size_t>(t.rank()), false);
  std::int64_t num_outputs = 1;
  for (const int axis : axes) reduced[static_cast<std::size_t>(axis)] = true;
  for (int axis = 0; axis < t.rank(); ++axis) {
    if (!reduced[static_cast<std::size_t>(axis)]) num_outputs *= t.shape()[axis];
  }
  std::vector<Doubles> groups(static_cast<std::size_t>(num_outputs));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i), output = 0, step = 1;
    for (int axis = t.rank() - 1; axis >= 0; --axis) {
      const std::int64_t index = rest % t.shape()[axis];
      rest /= t.shape()[axis];
      if (reduced[static_cast<std::size_t>(axis)]) continue;
      output += index * step;
      step *= t.shape()[axis];
    }
    groups[static_cast<std::size_t>(output)].push_back(values[i]);
  }
  return groups;
}

template <class F>
Doubles for_each_group(const Tensor& t, const std::vector<int>& axes, F combine) {
  Doubles results;
  for (const Doubles& group : groups_of(t, axes)) results.push_back(combine(group));
  return results;
}

double add_up(const Doubles& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

Doubles as_doubles(const Tensor& t) { return t.cast(DType::f64).to_vector<double>(); }

}  // namespace

TEST_CASE("P34 each axis of [4, 3, 2], and -1", "[reductions]") {
  const Tensor t = Tensor::arange(24).reshape({4, 3, 2});
  CHECK(sum(t, 0).to_vector<std::int32_t>() == std::vector<std::int32_t>{36, 40, 44, 48, 52, 56});
  CHECK(sum(t, 1).to_vector<std::int32_t>() == std::vector<std::int32_t>{6, 9, 24, 27, 42, 45, 60, 63});
  CHECK(sum(t, 2).to_vector<std::int32_t>() ==
        std::vector<std::int32_t>{1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45});
  CHECK(sum(t, -1).to_vector<std::int32_t>() == sum(t, 2).to_vector<std::int32_t>());
  CHECK(sum(t, -1).shape() == Shape(4, 3));
  CHECK(sum(t).item<std::int32_t>() == 276);
  CHECK(sum(t).shape() == Shape());
  CHECK_THROWS_MATCHES(sum(t, 3), InvalidArgument, says("axis 3", "rank 3"));
  CHECK_THROWS_MATCHES(sum(t, -4), InvalidArgument, says("axis -4", "rank 3"));
  CHECK_THROWS_MATCHES(sum(t, {0, -3}), InvalidArgument, says("axis"));
  CHECK_THROWS_MATCHES(argmax(t, 3), InvalidArgument, says("argmax", "axis 3", "rank 3"));
}

TEMPLATE_LIST_TEST_CASE("reductions over any set of axes", "[reductions]", test::NumericTypes) {
  using T = TestType;
  const std::vector<int> axes = GENERATE(values<std::vector<int>>({{0},
                                                                   {1},
                                                                   {2},
                                                                   {3},
                                                                   {0, 1},
                                                                   {1, 2},
                                                                   {2, 3},
                                                                   {0, 2},
                                                                   {1, 3},
                                                                   {0, 3},
                                                                   {0, 1, 3},
                                                                   {0, 2, 3},
                                                                   {0, 1, 2, 3}}));
  const Axes given(std::vector<std::int64_t>(axes.begin(), axes.end()));
  // 1 and 2: sums to 36 and products to 2^12 are exact even where the significand has three bits or the range
  // is small.
  std::vector<T> values;
  for (int i = 0; i < 24; ++i) values.push_back(T(i % 8 == 3 ? 2 : 1));
  const Tensor t = Tensor::from(values, {2, 3, 2, 2});
  const auto expected_sum = for_each_group(t, axes, add_up);
  const auto rounded = [&](const Doubles& exact) {
    return as_doubles(Tensor::from(exact, Shape(exact.size())).cast(dtype_of<T>));
  };
  CHECK(as_doubles(sum(t, given)) == rounded(expected_sum));
  CHECK(sum(t, given).dtype() == dtype_of<T>);
  CHECK(as_doubles(product(t, given)) == rounded(for_each_group(t, axes, [](const Doubles& group) {
          double result = 1;
          for (const double value : group) result *= value;
          return result;
        })));
  CHECK(as_doubles(max(t, given)) == for_each_group(t, axes, [](const Doubles& group) {
          return *std::max_element(group.begin(), group.end());
        }));
  CHECK(as_doubles(min(t, given)) == for_each_group(t, axes, [](const Doubles& group) {
          return *std::min_element(group.begin(), group.end());
        }));
  const Tensor average = mean(t, given);
  CHECK(average.dtype() == reduced_dtype(ReduceOp::mean, dtype_of<T>));
  const auto expected_mean = for_each_group(
      t, axes, [](const Doubles& group) { return add_up(group) / static_cast<double>(group.size()); });
  CHECK(as_doubles(average) ==
        as_doubles(Tensor::from(expected_mean, Shape(expected_mean.size())).cast(average.dtype())));
}

TEST_CASE("a scalar reduces to itself", "[reductions]") {
  CHECK(sum(Tensor::scalar(3)).item<std::int32_t>() == 3);
  CHECK(mean(Tensor::scalar(3)).item<double>() == 3);
  CHECK(max(Tensor::scalar(3.5f)).shape() == Shape());
  CHECK_THROWS_MATCHES(sum(Tensor::scalar(3), 0), InvalidArgument, says("axis 0", "rank 0"));
}

TEST_CASE("P06 long half-precision sums", "[reductions]") {
  CHECK(sum(Tensor::ones({70000}, DType::bf16)).item<bf16>() == bf16(70144.0f));
  CHECK(sum(Tensor::ones({20000}, DType::f16)).item<f16>() == f16(20000.0f));
  // In two groups, the partial sums are not rounded either.
  CHECK(sum(Tensor::ones({7, 2, 10000}, DType::bf16), {0, 2}).to_vector<bf16>() ==
        std::vector<bf16>(2, bf16(70144.0f)));
}

TEST_CASE("P05 half-precision means do not overflow", "[reductions]") {
  const Tensor t = Tensor::full({4, 3, 5}, f16(40000.0f));
  CHECK(mean(t).item<f16>() == f16(40000.0f));
  CHECK(mean(t, {0, 2}).to_vector<f16>() == std::vector<f16>(3, f16(40000.0f)));
}

TEST_CASE("P05 means do not overflow where their sums do, over axes apart either", "[reductions]") {
  const Tensor t = Tensor::full({4, 3, 5}, 0x1p127f);
  CHECK(mean(t).item<float>() == 0x1p127f);
  CHECK(mean(t, {0, 2}).to_vector<float>() == std::vector<float>(3, 0x1p127f));
  CHECK(mean(Tensor::full({4, 3, 5}, 3.0), {0, 2}).to_vector<double>() == std::vector<double>(3, 3.0));
  CHECK(std::isinf(sum(t, {0, 2}).to_vector<float>()[0]));
}

TEST_CASE("P04 means of integers are true divisions", "[reductions]") {
  CHECK(mean(Tensor::from<std::int32_t>({3, 4}, {2})).item<double>() == 3.5);
  CHECK(mean(Tensor::full({300}, std::int8_t{100})).item<float>() == 100);
  CHECK(mean(Tensor::full({3, 2, 100}, std::int8_t{100}), {0, 2}).to_vector<float>() ==
        std::vector<float>{100, 100});
}

TEST_CASE("P07 narrow integer sums are kept wide, then wrapped to their type", "[reductions]") {
  const Tensor t = Tensor::from<std::int8_t>({120, 100}, {2});
  CHECK(sum(t).item<std::int8_t>() == -36);
  CHECK(reduce_axes(ReduceOp::sum, t, {}, DType::i64).item<std::int64_t>() == 220);
  CHECK(reduce_axes(ReduceOp::sum, t.reshape({2, 1, 1}), {0, 2}, DType::i64).item<std::int64_t>() == 220);
  CHECK_THROWS_MATCHES(sum(Tensor::full({2}, true)), InvalidArgument, says("bool"));
  CHECK_THROWS_MATCHES(mean(Tensor::full({2}, true)), InvalidArgument, says("bool"));
  CHECK_THROWS_MATCHES(argmax(Tensor::full({2}, true)), InvalidArgument, says("argmax", "bool"));
}

TEST_CASE("P46 NaN wins min and max, wherever it is", "[reductions]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(max(Tensor::from<float>({3, 1, 7, nan}, {4})).item<float>()));
  CHECK(std::isnan(max(Tensor::from<float>({nan, 3, 1, 7}, {4})).item<float>()));
  CHECK(std::isnan(min(Tensor::from<float>({nan, nan}, {2})).item<float>()));
  CHECK(std::isnan(min(Tensor::from<float>({1, 2, nan, 3}, {2, 1, 2}), {0, 2}).item<float>()));
}

TEST_CASE("P33 sums over an empty axis are 0, and P31 nothing in gives nothing out", "[reductions]") {
  const Tensor rows = Tensor::zeros({3, 0});
  CHECK(sum(rows, 1).to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(product(rows, 1).to_vector<float>() == std::vector<float>{1, 1, 1});
  CHECK(sum(rows, 0).shape() == Shape(0));
  CHECK(max(rows, 0).shape() == Shape(0));
  CHECK(sum(rows).item<float>() == 0);
  CHECK(sum(Tensor::zeros({2, 0, 3, 0}), {1, 3}).to_vector<float>() == std::vector<float>(6, 0));
  for (const float value : mean(rows, 1).to_vector<float>()) CHECK(std::isnan(value));
  CHECK(std::isnan(mean(Tensor::zeros({0}, DType::i32)).item<double>()));
  CHECK(mean(rows, 0).shape() == Shape(0));
  CHECK_THROWS_MATCHES(max(rows, 1), InvalidArgument, says("max", "[3, 0] float32", "no elements"));
  CHECK_THROWS_MATCHES(min(rows), InvalidArgument, says("min", "[3, 0] float32", "no elements"));
  CHECK_THROWS_MATCHES(argmax(rows, 1), InvalidArgument, says("argmax", "[3, 0] float32", "no elements"));
  CHECK(argmax(rows, 0).shape() == Shape(0));
}

TEST_CASE("reduce_axes divides once, in a dtype of the caller's choice", "[reductions]") {
  const Tensor t = Tensor::from<std::int32_t>({1, 2, 3, 4}, {2, 2});
  CHECK(reduce_axes(ReduceOp::sum, t, 0, DType::f64, 8).to_vector<double>() == Doubles{0.5, 0.75});
  CHECK(reduce_axes(ReduceOp::mean, t, 0, DType::f64, 2).to_vector<double>() == Doubles{1, 1.5});
  CHECK(reduce_axes(ReduceOp::sum, t.reshape({2, 1, 2}), {0, 2}, DType::f64, 4).item<double>() == 2.5);
  CHECK(reduce_axes(ReduceOp::sum, Tensor::ones({3}, DType::f16), {}, DType::f32).item<float>() == 3);
  CHECK(std::isnan(reduce_axes(ReduceOp::sum, Tensor::zeros({0}), {}, DType::f32, 0).item<float>()));
  CHECK_THROWS_MATCHES(reduce_axes(ReduceOp::sum, t, 0, DType::u8), InvalidArgument,
                       says("reduce_axes(sum)", "[2, 2] int32", "uint8", "int64", "float64"));
  CHECK_THROWS_MATCHES(reduce_axes(ReduceOp::max, t, 0, DType::i32, 2), InvalidArgument,
                       says("reduce_axes(max)", "divisor 2"));
  CHECK_THROWS_MATCHES(reduce_axes(ReduceOp::sum, t, 0, DType::i32, 0), InvalidArgument,
                       says("divided by 0", "int32"));
}

TEST_CASE("P35 a sum repeated gives the same bits", "[reductions]") {
  const Tensor t = Tensor::full({250000}, 0.1);
  const double first = sum(t).item<double>();
  for (int round = 0; round < 20; ++round) CHECK(sum(t).item<double>() == first);
}

TEST_CASE("reductions read views", "[reductions]") {
  const Tensor t = Tensor::arange(6).reshape({2, 3});
  CHECK(sum(t.narrow(1, 1, 3), 0).to_vector<std::int32_t>() == std::vector<std::int32_t>{5, 7});
  CHECK(argmax(t.narrow(1, 0, 2), 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("argmax finds the first of the largest, along any axis", "[reductions]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor t = Tensor::from<float>({1, 5, 5, 7, 0, 2}, {2, 3});
  CHECK(argmax(t).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
  CHECK(argmax(t, 0).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 0});
  CHECK(argmax(Tensor::from<float>({1, nan, 9, nan}, {4})).item<std::int64_t>() == 1);
  CHECK(argmax(Tensor::from<std::uint8_t>({200, 3, 201}, {3})).item<std::int64_t>() == 2);
  CHECK_THROWS_MATCHES(argmax(Tensor::scalar(1)), InvalidArgument, says("argmax", "rank 0"));
}

TEST_CASE("P39 partial sums live until the device is done with them", "[reductions]") {
  LazyDevice device;
  const Stream stream(device);
  const StreamScope scope(stream);
  const Tensor t = Tensor::arange(24, DType::f32, "GPU:0").reshape({2, 3, 4});
  const Tensor sums = sum(t, {0, 2}), averages = mean(t.narrow(2, 0, 2), {0, 2});
  CHECK_FALSE(stream.is_complete());
  CHECK(sums.to_vector<float>() == std::vector<float>{60, 92, 124});
  CHECK(averages.to_vector<float>() == std::vector<float>{6.5, 10.5, 14.5});
}

TEST_CASE("P07 the mean of 64-bit integers is right where their sum wraps", "[reductions]") {
  constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLargestUnsigned = std::numeric_limits<std::uint64_t>::max();
  CHECK(mean(Tensor::full({3}, kLargest)).item<double>() == static_cast<double>(kLargest));
  CHECK(mean(Tensor::full({7}, kLargestUnsigned)).item<double>() == static_cast<double>(kLargestUnsigned));
  CHECK(mean(Tensor::full({2, 3}, kLargest), 0).to_vector<double>() ==
        Doubles(3, static_cast<double>(kLargest)));
  CHECK(sum(Tensor::from<std::int64_t>({kLargest, 1}, {2})).item<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::min());
}
