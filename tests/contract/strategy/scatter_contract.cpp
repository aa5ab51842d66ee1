#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/dtypes.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Sparse rows made dense and written to variables.
namespace lockstep::test {

using Aggregation = VariableAggregation;
using Scatter = Variable& (Variable::*)(const IndexedSlices&);

namespace {

IndexedSlices rows(std::initializer_list<float> values, std::initializer_list<std::int64_t> indices,
                   const Device& device = TestBackend::device()) {
  const auto n = static_cast<std::int64_t>(indices.size());
  return {Tensor::from<float>(values, {n, static_cast<std::int64_t>(values.size()) / n}).to(device),
          Tensor::from<std::int64_t>(indices, {n}).to(device),
          {3, 2}};
}

Variable variable_of_ones(Aggregation aggregation = Aggregation::none) {
  return Variable(Tensor::ones({3, 2}), {.name = "table", .aggregation = aggregation});
}

std::vector<std::vector<float>> components(const Variable& variable) {
  std::vector<std::vector<float>> result;
  for (const Tensor& component : variable.strategy().local_results(variable))
    result.push_back(component.to_vector<float>());
  return result;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("sparse rows of one index add up in the dense tensor", "[strategy][sparse]",
                        NumericTypes) {
  using T = TestType;
  const std::int64_t columns = GENERATE(1, 3, 1025);
  // Row k of 7 goes to row k * 3 % 5 and holds k + 1; rows 0 and 3 get two.
  std::vector<T> values;
  std::vector<std::int64_t> indices;
  std::vector<int> sums(6, 0);
  for (std::int64_t k = 0; k < 7; ++k) {
    indices.push_back(k * 3 % 5);
    sums[static_cast<std::size_t>(k * 3 % 5)] += static_cast<int>(k) + 1;
    values.insert(values.end(), static_cast<std::size_t>(columns), static_cast<T>(static_cast<float>(k + 1)));
  }
  const IndexedSlices slices{Tensor::from(values, {7, columns}).to(TestBackend::device()),
                             Tensor::from(indices, {7}).to(TestBackend::device()),
                             {6, columns}};
  const Tensor dense = slices.to_dense();
  REQUIRE(dense.device() == TestBackend::device());
  std::vector<T> expected;
  for (const int total : sums)
    expected.insert(expected.end(), static_cast<std::size_t>(columns),
                    static_cast<T>(static_cast<float>(total)));
  REQUIRE(dense.to_vector<T>() == expected);
}

TEST_CASE("P06 many rows of one index are added in float and rounded once", "[strategy][sparse]") {
  const IndexedSlices slices{Tensor::ones({20000, 1}, DType::f16).to(TestBackend::device()),
                             Tensor::zeros({20000}, DType::i64).to(TestBackend::device()),
                             {1, 1}};
  REQUIRE(slices.to_dense().item<f16>() == f16(20000.0f));
}

TEST_CASE("sparse rows that are none, or empty", "[strategy][sparse]") {
  const Device device = TestBackend::device();
  const IndexedSlices none{
      Tensor::zeros({0, 2}, DType::f32, device), Tensor::zeros({0}, DType::i64, device), {2, 2}};
  REQUIRE(none.to_dense().to_vector<float>() == std::vector<float>(4, 0.0f));
  const IndexedSlices empty{
      Tensor::zeros({2, 0}, DType::f32, device), Tensor::zeros({2}, DType::i64, device), {2, 0}};
  REQUIRE(empty.to_dense().shape() == Shape(2, 0));
  REQUIRE_THROWS_MATCHES(rows({1, 1}, {3}).to_dense(), InvalidArgument,
                         says("to_dense", "index 3", "[3, 2]"));
  REQUIRE_THROWS_MATCHES(rows({1, 1}, {-1}).to_dense(), InvalidArgument, says("index -1"));
}

TEST_CASE("scatter: rows of every component are written outside replicas", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const auto written = [&](Scatter scatter) {
    Variable variable = variable_of_ones();
    variable.assign(4.0f);
    Variable& same = (variable.*scatter)(rows({2, 8, 1, 1, 4, 2}, {2, 0, 2}));
    REQUIRE(same == variable);
    const auto parts = components(variable);
    REQUIRE(parts[0] == parts[1]);
    return parts[0];
  };
  using Values = std::vector<float>;
  REQUIRE(written(&Variable::scatter_add) == Values{5, 5, 4, 4, 10, 14});
  REQUIRE(written(&Variable::scatter_sub) == Values{3, 3, 4, 4, -2, -6});
  REQUIRE(written(&Variable::scatter_mul) == Values{4, 4, 4, 4, 32, 64});
  REQUIRE(written(&Variable::scatter_div) == Values{4, 4, 4, 4, 0.5f, 0.25f});
  REQUIRE(written(&Variable::scatter_min) == Values{1, 1, 4, 4, 2, 2});
  REQUIRE(written(&Variable::scatter_max) == Values{4, 4, 4, 4, 4, 8});
  REQUIRE(written(&Variable::scatter_update) == Values{1, 1, 4, 4, 4, 2});
}

TEST_CASE("P46 scatter_min and scatter_max keep NaN", "[strategy][variable]") {
  Replicas strategy(1);
  const auto scope = strategy.scope();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Scatter scatter : {&Variable::scatter_min, &Variable::scatter_max}) {
    Variable variable = variable_of_ones();
    (variable.*scatter)(rows({nan, 2, 3, 3}, {1, 1}));
    (variable.*scatter)(rows({5, 2}, {1}));
    const auto values = components(variable)[0];
    REQUIRE(std::isnan(values[2]));
    REQUIRE_FALSE(std::isnan(values[3]));
  }
}

TEST_CASE("scatter in replicas follows the aggregation", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const auto written = [&](Scatter scatter, Aggregation aggregation) {
    Variable variable = variable_of_ones(aggregation);
    strategy.run([&](ReplicaContext& ctx) {
      const bool first = ctx.replica_id_in_sync_group() == 0;
      (variable.*scatter)(first ? rows({2, 2}, {0}, ctx.device()) : rows({4, 4, 6, 6}, {0, 2}, ctx.device()));
    });
    const auto parts = components(variable);
    REQUIRE(parts[0] == parts[1]);
    return parts[0];
  };
  using Values = std::vector<float>;
  REQUIRE(written(&Variable::scatter_add, Aggregation::sum) == Values{7, 7, 1, 1, 7, 7});
  REQUIRE(written(&Variable::scatter_sub, Aggregation::mean) == Values{-2, -2, 1, 1, -2, -2});
  REQUIRE(written(&Variable::scatter_mul, Aggregation::sum) == Values{8, 8, 1, 1, 6, 6});
  REQUIRE(written(&Variable::scatter_update, Aggregation::only_first_replica) == Values{2, 2, 1, 1, 1, 1});
  REQUIRE_THROWS_MATCHES(written(&Variable::scatter_add, Aggregation::none), InvalidArgument,
                         says("scatter_add of the variable 'table'", "aggregation is none"));
  for (const Aggregation aggregation : {Aggregation::sum, Aggregation::mean})
    for (const Scatter scatter : {&Variable::scatter_min, &Variable::scatter_max, &Variable::scatter_update})
      REQUIRE_THROWS_MATCHES(written(scatter, aggregation), Unsupported,
                             says("'table'", "none or only_first"));
}

TEST_CASE("scatter of the same rows in replicas follows assign's rules", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Device device = TestBackend::device();
  const IndexedSlices same{
      Tensor::full({1, 2}, std::int32_t{4}).to(device), Tensor::zeros({1}, DType::i64).to(device), {3, 2}};
  Variable first(Tensor::zeros({3, 2}, DType::i32),
                 {.name = "table", .aggregation = Aggregation::only_first_replica});
  strategy.run([&] { first.scatter_add(same); });
  REQUIRE(first.value().to_vector<std::int32_t>() == std::vector<std::int32_t>{4, 4, 0, 0, 0, 0});
  Variable sum(Tensor::zeros({3, 2}, DType::i32), {.name = "total", .aggregation = Aggregation::sum});
  REQUIRE_THROWS_MATCHES(strategy.run([&] { sum.scatter_add(same); }), InvalidArgument,
                         says("scatter_add of the variable 'total'", "the same rows"));
}

TEST_CASE("scatter in an update concerns one component", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = variable_of_ones();
  strategy.extended().update(variable, [&](Tensor&) {
    if (get_update_replica_id() == 1) variable.scatter_add(rows({1, 2}, {1}));
  });
  REQUIRE(components(variable)[0] == std::vector<float>(6, 1.0f));
  REQUIRE(components(variable)[1] == std::vector<float>{1, 1, 2, 3, 1, 1});
}

TEST_CASE("scatter refuses what does not fit and changes nothing", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = variable_of_ones();
  const Tensor snapshot = variable.value();
  REQUIRE_THROWS_MATCHES(variable.scatter_add(rows({1, 1, 1, 1}, {0, 3})), InvalidArgument,
                         says("scatter_add", "index 3", "[3, 2]"));
  IndexedSlices other = rows({1, 1}, {0});
  other.dense_shape = {4, 2};
  REQUIRE_THROWS_MATCHES(variable.scatter_sub(other), InvalidArgument,
                         says("scatter_sub of the variable 'table'", "[4, 2]", "[3, 2] float32"));
  IndexedSlices wide = rows({1, 1}, {0});
  wide.values = wide.values.cast(DType::f64);
  REQUIRE_THROWS_MATCHES(variable.scatter_add(wide), InvalidArgument, says("float64", "float32"));
  Variable on_read(Tensor::ones({3, 2}), {.synchronization = VariableSynchronization::on_read});
  REQUIRE_THROWS_MATCHES(
      on_read.scatter_add(rows({1, 1}, {0})), Unsupported,
      says("scatter_add of the variable", "outside its replicas", "in a replica function"));
  REQUIRE(components(variable) == std::vector(2, std::vector<float>(6, 1.0f)));
  variable.scatter_add(rows({1, 1}, {0}));
  REQUIRE(snapshot.to_vector<float>() == std::vector<float>(6, 1.0f));
}

TEST_CASE("scatter in replicas writes their own components of an on_read variable", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  using Values = std::vector<float>;
  for (const Aggregation aggregation :
       {Aggregation::none, Aggregation::sum, Aggregation::mean, Aggregation::only_first_replica}) {
    const auto written = [&](Scatter scatter) {
      Variable variable(
          Tensor::full({3, 2}, 4.0f),
          {.name = "table", .synchronization = VariableSynchronization::on_read, .aggregation = aggregation});
      strategy.run([&](ReplicaContext& ctx) {  // replica 1 writes more often than replica 0
        if (ctx.replica_id_in_sync_group() == 0) return;
        (variable.*scatter)(rows({2, 8, 1, 1}, {2, 0}));
        (variable.*scatter)(rows({4, 2}, {2}));
      });
      REQUIRE(components(variable)[0] == Values(6, 4.0f));
      return components(variable)[1];
    };
    REQUIRE(written(&Variable::scatter_add) == Values{5, 5, 4, 4, 10, 14});
    REQUIRE(written(&Variable::scatter_sub) == Values{3, 3, 4, 4, -2, -6});
    REQUIRE(written(&Variable::scatter_mul) == Values{4, 4, 4, 4, 32, 64});
    REQUIRE(written(&Variable::scatter_div) == Values{4, 4, 4, 4, 0.5f, 0.25f});
    REQUIRE(written(&Variable::scatter_min) == Values{1, 1, 4, 4, 2, 2});
    REQUIRE(written(&Variable::scatter_max) == Values{4, 4, 4, 4, 4, 8});
    REQUIRE(written(&Variable::scatter_update) == Values{1, 1, 4, 4, 4, 2});
  }
  Variable sum(Tensor::zeros({3, 2}), {.name = "total",
                                       .synchronization = VariableSynchronization::on_read,
                                       .aggregation = Aggregation::sum});
  strategy.run([&] { sum.scatter_add(rows({1, 2}, {1})); });
  REQUIRE(sum.value().to_vector<float>() == Values{0, 0, 2, 4, 0, 0});
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    sum.scatter_add(rows({1, 1, 1, 1}, {0, 3}));
  }),
                         InvalidArgument, says("scatter_add", "index 3"));
  REQUIRE_THROWS_MATCHES(strategy.extended().update(sum,
                                                    [&](Tensor&) {
                                                      sum.scatter_add(rows({1, 1}, {0}));
                                                    }),
                         Unsupported, says("'total'", "outside its replicas"));
  REQUIRE(sum.value().to_vector<float>() == Values{0, 0, 2, 4, 0, 0});
}

TEST_CASE("scatter of the one component of an on_read variable is aggregated", "[strategy][variable]") {
  CentralStorageStrategy strategy(TestBackend::devices(2), "CPU:0");
  const auto scope = strategy.scope();
  Variable sum(Tensor::zeros({3, 2}), {.name = "total",
                                       .synchronization = VariableSynchronization::on_read,
                                       .aggregation = Aggregation::sum});
  strategy.run([&](ReplicaContext& ctx) {
    sum.scatter_add(ctx.replica_id_in_sync_group() == 0 ? rows({2, 2}, {0}) : rows({4, 4, 6, 6}, {0, 2}));
  });
  REQUIRE(sum.value().to_vector<float>() == std::vector<float>{6, 6, 0, 0, 6, 6});
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    sum.scatter_max(rows({1, 1}, {0}));
  }),
                         Unsupported, says("scatter_max", "'total'"));
}

TEST_CASE("rows of booleans can be written, not added", "[strategy][variable]") {
  Replicas strategy(1);
  const auto scope = strategy.scope();
  Variable variable(Tensor::full({2, 2}, false), {.name = "mask"});
  const IndexedSlices slices{Tensor::full({1, 2}, true).to(TestBackend::device()),
                             Tensor::zeros({1}, DType::i64).to(TestBackend::device()),
                             {2, 2}};
  variable.scatter_update(slices);
  REQUIRE(variable.value().to_vector<bool>() == std::vector<bool>{true, true, false, false});
  REQUIRE_THROWS_MATCHES(variable.scatter_add(slices), InvalidArgument, says("'mask'", "booleans"));
}

TEST_CASE("make_variable needs no scope", "[strategy][variable]") {
  Replicas strategy(2);
  const Variable variable = strategy.make_variable(Tensor::scalar(3.0f), {.name = "w"});
  REQUIRE(&variable.strategy() == &strategy);
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{3, 3});
  REQUIRE(strategy.make_variable([] { return Tensor::scalar(4.0f); }).value().item<float>() == 4.0f);
  REQUIRE_THROWS_AS(strategy.run([&] { strategy.make_variable(Tensor::scalar(1.0f)); }), ContextError);
}

}  // namespace lockstep::test
