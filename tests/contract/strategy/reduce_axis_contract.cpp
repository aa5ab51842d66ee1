#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Strategy::reduce along axes.
namespace lockstep::test {

using enum ReduceOp;

namespace {

PerReplica<Tensor> filled(int n, const Shape& shape, const std::vector<float>& values) {
  std::vector<Tensor> components;
  for (int i = 0; i < n; ++i) components.push_back(Tensor::from(values, shape, TestBackend::device(i)));
  return PerReplica(std::move(components));
}

}  // namespace

TEST_CASE("reduce-axis0-even: equal rows on three replicas", "[strategy]") {
  Replicas strategy(3);
  const auto value = strategy.run([] { return Tensor::from<float>({1, 2}, {2}); });
  REQUIRE(strategy.reduce(mean, value, 0).item<float>() == 1.5f);
  REQUIRE(strategy.reduce(sum, value, 0).item<float>() == 9.0f);
}

TEST_CASE("reduce-mean-of-means: the mean of replicas' means is not the mean of all", "[strategy]") {
  Replicas strategy(2);
  const auto rows = vectors<float>({{0, 1, 2, 3}, {4, 5}});
  const auto means = strategy.run([](const Tensor& row) { return lockstep::mean(row); }, rows);
  REQUIRE(strategy.reduce(mean, means).item<float>() == 3.0f);
  REQUIRE(strategy.reduce(mean, rows, 0).item<float>() == 2.5f);
}

TEST_CASE("reduce-negative-axis: counted from the end", "[strategy]") {
  Replicas strategy(2);
  REQUIRE(strategy.reduce(sum, filled(2, {2, 2}, {1, 2, 3, 4}), -1).to_vector<float>() ==
          std::vector<float>{6, 14});
}

TEST_CASE("reduce-axis-out-of-range: refused with the rank", "[strategy]") {
  Replicas strategy(2);
  const auto value = vectors<float>({{1, 2}, {3, 4}});
  REQUIRE_THROWS_MATCHES(strategy.reduce(mean, value, 1), InvalidArgument, says("axis 1", "rank 1"));
  REQUIRE_THROWS_MATCHES(strategy.reduce(mean, value, -2), InvalidArgument, says("axis -2", "rank 1"));
}

TEST_CASE("reduce-scalar-with-axis: scalars have no axis", "[strategy]") {
  Replicas strategy(2);
  for (const ReduceOp op : {sum, mean})
    REQUIRE_THROWS_MATCHES(strategy.reduce(op, scalars<float>({1, 2}), 0), InvalidArgument,
                           says("scalars have no axis", name(op)));
}

TEST_CASE("reduce-int-sum-dtype: a sum of int32 stays int32", "[strategy]") {
  Replicas strategy(2);
  const Tensor total = strategy.reduce(sum, vectors<int>({{1}, {2}}), 0);
  REQUIRE(total.dtype() == DType::i32);
  REQUIRE(total.item<int>() == 3);
}

TEST_CASE("reduce-all-empty: nothing sums to 0 and has no mean", "[strategy]") {
  Replicas strategy(2);
  const auto nothing = vectors<float>({{}, {}});
  REQUIRE(strategy.reduce(sum, nothing, 0).item<float>() == 0.0f);
  REQUIRE(std::isnan(strategy.reduce(mean, nothing, 0).item<float>()));
  REQUIRE(std::isnan(strategy.reduce(mean, vectors<int>({{}, {}}), 0).item<double>()));
  REQUIRE(strategy.reduce(product, nothing, 0).item<float>() == 1.0f);
  for (const ReduceOp op : {min, max})
    REQUIRE_THROWS_MATCHES(strategy.reduce(op, nothing, 0), InvalidArgument,
                           says(name(op), "no replica has an element"));
}

TEST_CASE("P03 an empty replica adds nothing and counts nothing", "[strategy]") {
  Replicas strategy(2);
  const auto value = vectors<float>({{4}, {}});
  for (const ReduceOp op : {sum, mean, min, max, product}) {
    CAPTURE(op);
    REQUIRE(strategy.reduce(op, value, 0).item<float>() == 4.0f);
  }
  REQUIRE(strategy.reduce(min, vectors<float>({{}, {-4, 3}}), 0).item<float>() == -4.0f);
  // [2] and [4] against [6]: in the second step one replica has run out.
  REQUIRE(strategy.reduce(mean, vectors<float>({{2}, {6}}), 0).item<float>() == 4.0f);
  REQUIRE(strategy.reduce(mean, vectors<float>({{4}, {}}), 0).item<float>() == 4.0f);
}

TEST_CASE("a plain value with an axis is handed to every replica", "[strategy]") {
  Replicas strategy(3);
  const Tensor plain = Tensor::from<float>({1, 2}, {2});
  REQUIRE(strategy.reduce(sum, plain, 0).item<float>() == 9.0f);
  REQUIRE(strategy.reduce(mean, plain, 0).item<float>() == 1.5f);
  REQUIRE(strategy.reduce(sum, strategy.run([&] { return plain; }), 0).item<float>() == 9.0f);
  const auto here = strategy.extended().broadcast_to(plain, Device());  // one component is a plain value
  REQUIRE(strategy.reduce(sum, here, 0).item<float>() == 9.0f);
}

TEST_CASE("the mean over several axes counts their elements on all replicas", "[strategy]") {
  Replicas strategy(2);
  std::vector<float> long_rows(12), short_rows(6);
  std::iota(long_rows.begin(), long_rows.end(), 0.0f);
  std::iota(short_rows.begin(), short_rows.end(), 0.0f);
  const PerReplica value(std::vector{Tensor::from(long_rows, {2, 3, 2}, TestBackend::device(0)),
                                     Tensor::from(short_rows, {1, 3, 2}, TestBackend::device(1))});
  // Column sums: 0 + 2 + … + 10 and 0 + 2 + 4; 6 + 3 elements.
  REQUIRE(strategy.reduce(sum, value, {0, 1}).to_vector<float>() == std::vector<float>{36, 45});
  REQUIRE(strategy.reduce(mean, value, {0, 1}).to_vector<float>() == std::vector<float>{4, 5});
  REQUIRE(strategy.reduce(mean, value, {1, -3}).to_vector<float>() == std::vector<float>{4, 5});
  REQUIRE(strategy.reduce(max, value, {0, 1, 2}).item<float>() == 11.0f);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, value, {0, -3}), InvalidArgument, says("twice"));
}

TEST_CASE("components that differ beside the axes are refused, with the replicas", "[strategy]") {
  Replicas strategy(2);
  const PerReplica ragged(std::vector{Tensor::zeros({2, 3}), Tensor::zeros({2, 4})});
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, ragged, 0), InvalidArgument,
                         says("replica 1", "[2, 4]", "replica 0", "[2, 3]", "beside the reduced axes"));
  REQUIRE(strategy.reduce(sum, ragged, 1).to_vector<float>() == std::vector<float>{0, 0});
  const PerReplica ranks(std::vector{Tensor::zeros({2}), Tensor::zeros({2, 1})});
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, ranks, 0), InvalidArgument,
                         says("replica 1", "[2, 1]", "rank or dtype"));
  const PerReplica dtypes(std::vector{Tensor::zeros({2}), Tensor::zeros({2}, DType::bf16)});
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, dtypes, 0), InvalidArgument,
                         says("replica 1", "bfloat16", "float32"));
}

TEST_CASE("booleans and sparse rows are refused along an axis", "[strategy]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, vectors<std::uint8_t>({{1}, {1}})[0].cast(DType::boolean), 0),
                         InvalidArgument, says("bool"));
  const IndexedSlices slices{Tensor::zeros({1, 2}), Tensor::zeros({1}, DType::i64), {5, 2}};
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, PerReplica(std::vector{slices, slices}), 0), InvalidArgument,
                         says("sparse rows have no axes", "to_dense"));
}

TEST_CASE("integers are added in 64 bits along the axis and divided exactly", "[strategy]") {
  Replicas strategy(2);
  const std::vector<std::int8_t> many(300, 100);
  const auto value = vectors<std::int8_t>({many, many});
  REQUIRE(strategy.reduce(mean, value, 0).item<float>() == 100.0f);
  REQUIRE(strategy.reduce(sum, value, 0).item<std::int8_t>() == static_cast<std::int8_t>(60000));
}

TEST_CASE("P06 long half-precision sums are added in float and rounded once", "[strategy]") {
  Replicas strategy(2);
  const std::vector<bf16> ones(35000, bf16(1.0f));
  REQUIRE(static_cast<float>(strategy.reduce(sum, vectors<bf16>({ones, ones}), 0).item<bf16>()) == 70144.0f);
  const std::vector<f16> halves(10000, f16(1.0f));
  REQUIRE(static_cast<float>(strategy.reduce(sum, vectors<f16>({halves, halves}), 0).item<f16>()) ==
          20000.0f);
  // Across replicas too: 2048 + 1 + 1 in half precision would stay 2048.
  Replicas three(3);
  const auto across = scalars<f16>({f16(2048.0f), f16(1.0f), f16(1.0f)});
  REQUIRE(static_cast<float>(three.reduce(sum, across).item<f16>()) == 2050.0f);
}

TEST_CASE("P33 an axis without elements still has output rows", "[strategy]") {
  Replicas strategy(2);
  const PerReplica value(std::vector{Tensor::zeros({3, 0}, DType::f32, TestBackend::device(0)),
                                     Tensor::zeros({3, 0}, DType::f32, TestBackend::device(1))});
  REQUIRE(strategy.reduce(sum, value, 1).to_vector<float>() == std::vector<float>{0, 0, 0});
  REQUIRE(std::isnan(strategy.reduce(mean, value, 1).to_vector<float>()[2]));
  REQUIRE(strategy.reduce(sum, value, 0).shape() == Shape(0));
  REQUIRE(strategy.reduce(mean, value, 0).size() == 0);
  REQUIRE(strategy.reduce(max, value, 0).size() == 0);
}

TEST_CASE("P34 every axis gives its own result", "[strategy]") {
  Replicas strategy(2);
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  const auto value = filled(2, {4, 3, 2}, values);
  const auto expected = [&](int axis) {
    const Shape shape(4, 3, 2);
    std::vector<float> result(static_cast<std::size_t>(24 / shape[axis]));
    for (int i = 0; i < 24; ++i) {
      const int index[] = {i / 6, i / 2 % 3, i % 2};
      int at = 0;
      for (int a = 0; a < 3; ++a)
        if (a != axis) at = at * static_cast<int>(shape[a]) + index[a];
      result[static_cast<std::size_t>(at)] += 2.0f * static_cast<float>(i);
    }
    return result;
  };
  for (const int axis : {0, 1, 2}) {
    CAPTURE(axis);
    REQUIRE(strategy.reduce(sum, value, axis).to_vector<float>() == expected(axis));
    REQUIRE(strategy.reduce(sum, value, axis - 3).to_vector<float>() == expected(axis));
    REQUIRE(strategy.reduce(sum, value, axis).shape() == Shape(4, 3, 2).without(axis));
  }
  REQUIRE_THROWS_MATCHES(strategy.reduce(sum, value, 3), InvalidArgument, says("axis 3", "rank 3"));
}

TEST_CASE("P35 repeated axis reductions give one bit pattern", "[strategy]") {
  Replicas strategy(2);
  const std::vector<double> tenths(125000, 0.1);
  const auto value = vectors<double>({tenths, tenths});
  const double first = strategy.reduce(sum, value, 0).item<double>();
  REQUIRE(std::abs(first - 25000.0) < 1e-6);
  int differing = 0;
  for (int round = 0; round < (kSlowBuild ? 20 : 200); ++round)
    differing += strategy.reduce(sum, value, 0).item<double>() != first;
  REQUIRE(differing == 0);
}

TEST_CASE("P46 NaN goes through min and max wherever it stands", "[strategy]") {
  Replicas strategy(2);
  const float nan = std::nanf("");
  for (const ReduceOp op : {min, max}) {
    CAPTURE(op);
    for (const auto& value : {vectors<float>({{3, 1}, {7, nan}}), vectors<float>({{nan, 3}, {1, 7}}),
                              vectors<float>({{nan}, {nan}}), vectors<float>({{nan}, {}})}) {
      REQUIRE(std::isnan(strategy.reduce(op, value, 0).item<float>()));
    }
    REQUIRE(std::isnan(strategy.reduce(op, scalars<float>({nan, 3})).item<float>()));
    REQUIRE(std::isnan(strategy.reduce(op, scalars<float>({3, nan})).item<float>()));
  }
}

TEST_CASE("large values are reduced along an axis on all replicas' threads with the same result",
          "[strategy]") {
  const int n = GENERATE(1, 2, 3);
  Replicas strategy(n);
  // 64-bit rows of 1 MiB, above what the calling thread does alone.
  const std::vector<std::int64_t> row(1 << 17, 3);
  const auto value =
      vectors<std::int64_t>(std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(n), row));
  REQUIRE(strategy.reduce(sum, value, 0).item<std::int64_t>() == std::int64_t{3} * n << 17);
  REQUIRE(strategy.reduce(mean, value, 0).item<double>() == 3.0);
  const Tensor across = strategy.reduce(max, value);
  REQUIRE(across.shape() == Shape(1 << 17));
  REQUIRE(across.slice(131071, 131072).to_vector<std::int64_t>()[0] == 3);
}

TEST_CASE("views are reduced as their elements, along an axis and across", "[strategy]") {
  Replicas strategy(2);
  const auto matrix = filled(2, {2, 2}, {1, 2, 3, 4});
  const PerReplica column(std::vector{matrix[0].narrow(1, 0, 1), matrix[1].narrow(1, 0, 1)});
  REQUIRE(strategy.reduce(sum, column).to_vector<float>() == std::vector<float>{2, 6});
  REQUIRE(strategy.reduce(sum, column, 0).to_vector<float>() == std::vector<float>{8});
  REQUIRE(matrix[0].to_vector<float>() == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("P05 the mean along an axis does not overflow where its sum does", "[strategy]") {
  constexpr float kLarge = 0x1p127f;
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  std::vector<Tensor> parts;
  for (int i = 0; i < n; ++i)
    parts.push_back(Tensor::full({i + 1, 2}, kLarge, DType::f32, TestBackend::device(i)));
  const PerReplica rows(std::move(parts));
  REQUIRE(strategy.reduce(mean, rows, 0).to_vector<float>() == std::vector<float>{kLarge, kLarge});
  REQUIRE(std::isinf(strategy.reduce(sum, rows, {0, 1}).item<float>()));
}

TEST_CASE("P07 the mean of 64-bit integers along an axis is right where their sum wraps", "[strategy]") {
  Replicas strategy(2);
  constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
  const auto rows = strategy.run([] { return Tensor::full({3}, kLargest); });
  REQUIRE(strategy.reduce(mean, rows, 0).item<double>() == static_cast<double>(kLargest));
}

TEST_CASE("a mean along axes is right where it, or a replica's part of it, is subnormal", "[strategy]") {
  Replicas strategy(2);
  for (const float x : {1e-44f, 1.2e-38f, 2.8e-45f}) {
    const auto rows = filled(2, {3}, {x, x, x});
    REQUIRE(strategy.reduce(mean, rows, 0).item<float>() == x);
    // NCCL scales what it adds beforehand, which subnormals do not survive.
    if (TestBackend::kKind == DeviceKind::cpu)
      REQUIRE(strategy.reduce(mean, rows).to_vector<float>()[0] == x);
    const auto blocks = filled(2, {3, 2, 3}, std::vector<float>(18, x));
    REQUIRE(strategy.reduce(mean, blocks, {0, 2}).to_vector<float>() == std::vector<float>{x, x});
  }
}

TEST_CASE("a mean of floats does not overflow where its sum does", "[strategy]") {
  Replicas strategy(2);
  REQUIRE(strategy.reduce(mean, filled(2, {3}, {3e38f, 3e38f, 3e38f}), 0).item<float>() == 3e38f);
  const auto large = strategy.run([] { return Tensor::full({2, 3}, 0x1.8p1023); });
  REQUIRE(strategy.reduce(mean, large, {0, 1}).item<double>() == 0x1.8p1023);
}

TEST_CASE("a mean of 64-bit integers is that of their exact sum", "[strategy]") {
  Replicas strategy(2);
  constexpr std::int64_t kOdd = (std::int64_t{1} << 53) + 1, kEven = std::int64_t{1} << 53;
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min(),
                 kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kAll = std::numeric_limits<std::uint64_t>::max();
  const auto check = [&]<class T>(const std::vector<std::vector<T>>& rows, double expected) {
    REQUIRE(strategy.reduce(mean, vectors<T>(rows), 0).template item<double>() == expected);
  };
  check(std::vector<std::vector<std::int64_t>>{{kOdd, -kEven}, {kOdd, -kEven}}, 0.5);
  check(std::vector<std::vector<std::int64_t>>{{kOdd}, {-kEven}}, 0.5);
  check(std::vector<std::vector<std::int64_t>>{{kMost, kMost}, {kMost, kMost}}, 0x1p63);
  check(std::vector<std::vector<std::int64_t>>{{kLeast, kLeast}, {kLeast}}, -0x1p63);
  check(std::vector<std::vector<std::int64_t>>{{kLeast, kMost}, {kMost, kLeast}}, -0.5);
  check(std::vector<std::vector<std::uint64_t>>{{kAll, kAll}, {kAll}}, 0x1p64);
  check(std::vector<std::vector<std::uint64_t>>{{kAll, 1}, {}}, 0x1p63);
  check(std::vector<std::vector<std::int64_t>>{{}, {7, -9}}, -1.0);
  REQUIRE(lockstep::mean(Tensor::from<std::int64_t>({kOdd, -kEven, kMost, kLeast + 1}, {4})).item<double>() ==
          0.25);
}

}  // namespace lockstep::test
