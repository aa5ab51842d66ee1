#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Strategy::local_results, gather and distribute_values_from_function.
namespace lockstep::test {

TEST_CASE("local-results-order: components come in replica order", "[strategy]") {
  Replicas strategy(3);
  const auto results = strategy.local_results(
      strategy.run([](ReplicaContext& ctx) { return ctx.replica_id_in_sync_group() + 1; }));
  STATIC_REQUIRE(std::is_same_v<decltype(results), const std::vector<int>>);
  REQUIRE(results == std::vector<int>{1, 2, 3});
}

TEST_CASE("local-results-plain: a value that is not distributed is one result", "[strategy]") {
  Replicas strategy(2);
  REQUIRE(strategy.local_results(7) == std::vector<int>{7});
  REQUIRE(strategy.local_results(std::tuple{7, std::string("x")}).size() == 1);
}

TEST_CASE("local_results takes nests, mirrored values and variables apart", "[strategy]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const auto nest = std::tuple{scalars<float>({1, 2}), 7, std::vector{scalars<int>({3, 4})}};
  const auto results = strategy.local_results(nest);
  REQUIRE(results.size() == 2);
  REQUIRE(std::get<0>(results[1]).item<float>() == 2.0f);
  REQUIRE(std::get<1>(results[1]) == 7);  // plain leaves are repeated
  REQUIRE(std::get<2>(results[1])[0].item<int>() == 4);

  const auto mirrored = strategy.extended().broadcast_to(Tensor::scalar(5.0f));
  REQUIRE(items<float>(strategy.local_results(mirrored)) == std::vector<float>{5, 5});

  const Variable variable(Tensor::scalar(6.0f));
  const std::vector<Tensor> components = strategy.local_results(variable);
  REQUIRE(items<float>(components) == std::vector<float>{6, 6});
  REQUIRE(components[1].device() == TestBackend::device(1));
}

TEST_CASE("local_results gives every replica's nest, whatever is first in it", "[strategy]") {
  Replicas strategy(2);
  const auto value = scalars<float>({1, 2});
  const auto total = strategy.extended().reduce_to(ReduceOp::sum, value, TestBackend::device());
  REQUIRE(total.size() == 1);
  for (const auto& [mine, sum] : {strategy.local_results(std::tuple{value, total}).at(1)}) {
    REQUIRE(mine.item<float>() == 2);
    REQUIRE(sum.item<float>() == 3);
  }
  const auto results = strategy.local_results(std::tuple{total, value});
  REQUIRE(results.size() == 2);
  REQUIRE(std::get<0>(results[1]).item<float>() == 3);
  REQUIRE(std::get<1>(results[1]).item<float>() == 2);
  REQUIRE(strategy.local_results(std::tuple{total, 7}).size() == 1);
}

TEST_CASE("local_results repeats a variable of central storage", "[strategy]") {
  CentralStorageStrategy central(TestBackend::devices(2), "CPU:0");
  const Variable v = central.make_variable(Tensor::scalar(5.0f));
  const auto results = central.local_results(std::tuple{v, scalars<float>({1, 2})});
  REQUIRE(results.size() == 2);
  REQUIRE(std::get<0>(results[1]).item<float>() == 5);
  REQUIRE(std::get<1>(results[1]).item<float>() == 2);
}

TEST_CASE("local_results refuses values of different strategies together", "[strategy]") {
  Replicas strategy(2);
  const PerReplica<Tensor> one({Tensor::scalar(1.0f)});
  const auto two = scalars<float>({1, 2});
  REQUIRE_THROWS_MATCHES(strategy.local_results(std::tuple{one, two}), InvalidArgument,
                         says("local_results", "1 components", "one with 2", "one strategy"));
  REQUIRE_THROWS_MATCHES(
      strategy.local_results(std::tuple{two, Mirrored<Tensor>(std::vector(3, Tensor::scalar(1)))}),
      InvalidArgument, says("local_results", "2 components", "one with 3"));
}

TEST_CASE("gather takes one object of all replicas as the plain value it is", "[strategy]") {
  Replicas strategy(2);
  const Tensor rows = Tensor::from<float>({1, 2}, {2});
  const auto same = strategy.run([&] { return rows; });
  REQUIRE(same.is_same_object());
  REQUIRE(strategy.gather(same, 0).to_vector<float>() == std::vector<float>{1, 2});
  const auto gathered = strategy.run([&](ReplicaContext& ctx) { return ctx.all_gather(rows, 0); });
  REQUIRE(gathered[1].to_vector<float>() == std::vector<float>{1, 2, 1, 2});
}

TEST_CASE("local_results works in any context and is a 1-sequence for one replica", "[strategy]") {
  Replicas strategy(2);
  const auto sizes =
      strategy.run([&](ReplicaContext& ctx) { return ctx.strategy().local_results(7).size(); });
  REQUIRE(sizes[1] == 1);
  OneDeviceStrategy one(TestBackend::device());
  REQUIRE(one.local_results(one.run([] { return 4; })) == std::vector<int>{4});
  REQUIRE(get_strategy().local_results(4) == std::vector<int>{4});
}

TEST_CASE("gather-2d: rows or columns in replica order", "[strategy]") {
  Replicas strategy(2);
  const auto value = strategy.run([] { return Tensor::from<float>({1, 2, 3}, {1, 3}); });
  const Tensor rows = strategy.gather(value, 0);
  REQUIRE(rows.shape() == Shape(2, 3));
  REQUIRE(rows.to_vector<float>() == std::vector<float>{1, 2, 3, 1, 2, 3});
  const Tensor columns = strategy.gather(value, 1);
  REQUIRE(columns.shape() == Shape(1, 6));
  REQUIRE(columns.to_vector<float>() == std::vector<float>{1, 2, 3, 1, 2, 3});
  REQUIRE(strategy.gather(value, -1).shape() == Shape(1, 6));  // D8
  REQUIRE(rows.device() == Device());
}

TEST_CASE("gather takes sizes that differ along the axis, also none", "[strategy]") {
  Replicas strategy(3);
  const auto value = vectors<int>({{1, 2}, {}, {3}});
  REQUIRE(strategy.gather(value, 0).to_vector<int>() == std::vector<int>{1, 2, 3});
}

TEST_CASE("gather refuses what cannot be concatenated", "[strategy]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.gather(scalars<float>({1, 2}), 0), InvalidArgument,
                         says("gather on replica 0", "scalars cannot be concatenated"));
  REQUIRE_THROWS_MATCHES(strategy.gather(vectors<float>({{1}, {2}}), 1), InvalidArgument,
                         says("gather", "axis 1", "rank 1"));
  REQUIRE_THROWS_MATCHES(strategy.gather(vectors<float>({{1}, {2}}), -2), InvalidArgument, says("axis -2"));
  const PerReplica extents(std::vector{Tensor::zeros({1, 2}), Tensor::zeros({1, 3})});
  REQUIRE_THROWS_MATCHES(strategy.gather(extents, 0), InvalidArgument,
                         says("replica 1", "[1, 3]", "replica 0", "[1, 2]"));
  const PerReplica ranks(std::vector{Tensor::zeros({1}), Tensor::zeros({1, 1})});
  REQUIRE_THROWS_MATCHES(strategy.gather(ranks, 0), InvalidArgument, says("replica 1", "[1, 1]", "rank"));
  const PerReplica dtypes(std::vector{Tensor::zeros({1}), Tensor::zeros({1}, DType::i32)});
  REQUIRE_THROWS_MATCHES(strategy.gather(dtypes, 0), InvalidArgument, says("replica 1", "int32", "float32"));
  const IndexedSlices slices{Tensor::zeros({1, 2}), Tensor::zeros({1}, DType::i64), {5, 2}};
  REQUIRE_THROWS_MATCHES(strategy.gather(PerReplica(std::vector{slices, slices}), 0), Unsupported,
                         says("IndexedSlices cannot be gathered"));
}

TEST_CASE("gather refuses a value with another number of components", "[strategy]") {
  Replicas strategy(3);
  REQUIRE_THROWS_MATCHES(strategy.gather(vectors<float>({{1}, {2}}), 0), InvalidArgument,
                         says("gather", "2 components", "3 local replicas"));
  REQUIRE_THROWS_MATCHES(get_strategy().gather(vectors<float>({{1}, {2}}), 0), InvalidArgument,
                         says("gather", "2 components"));
  Replicas other(2);
  const Variable foreign = other.make_variable(Tensor::zeros({2}));
  REQUIRE_THROWS_MATCHES(strategy.gather(foreign, 0), InvalidArgument, says("gather", "2 components"));
  REQUIRE_THROWS_AS(strategy.local_results(std::pair(vectors<float>({{1}, {2}, {3}}), foreign)),
                    InvalidArgument);
}

TEST_CASE("gather of a plain tensor is the tensor, not repeated", "[strategy]") {
  Replicas strategy(2);
  const Tensor plain = Tensor::from<float>({1, 2}, {2});
  REQUIRE(strategy.gather(plain, 0).is_same_object(plain));
  REQUIRE(strategy.gather(strategy.run([&] { return plain; }), 0).is_same_object(plain));
  OneDeviceStrategy one(TestBackend::device());
  REQUIRE(one.gather(one.run([&] { return plain; }), 0).to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("gather maps a nest leaf by leaf", "[strategy]") {
  Replicas strategy(2);
  const std::map<std::string, PerReplica<Tensor>> nest{{"a", vectors<int>({{1}, {2}})},
                                                       {"b", vectors<int>({{3}, {4}})}};
  const auto gathered = strategy.gather(nest, 0);
  REQUIRE(gathered.at("a").to_vector<int>() == std::vector<int>{1, 2});
  REQUIRE(gathered.at("b").to_vector<int>() == std::vector<int>{3, 4});
}

TEST_CASE("values-from-array: one value for each replica", "[strategy]") {
  Replicas strategy(3);
  const int array[] = {3, 2, 1};
  const PerReplica<int> value = strategy.distribute_values_from_function([&](ValueContext ctx) {
    return ctx.num_replicas_in_sync() == 3 ? array[ctx.replica_id_in_sync_group()] : -1;
  });
  REQUIRE(strategy.local_results(value) == std::vector<int>{3, 2, 1});
}

TEST_CASE("values-nested: every leaf is wrapped", "[strategy]") {
  Replicas strategy(2);
  const auto [a, b, c] = strategy.distribute_values_from_function([](ValueContext ctx) {
    const int id = ctx.replica_id_in_sync_group();
    return std::tuple{id, 2 * id, 3 * id};
  });
  REQUIRE((a[0] == 0 && a[1] == 1));
  REQUIRE((b[0] == 0 && b[1] == 2));
  REQUIRE((c[0] == 0 && c[1] == 3));
}

TEST_CASE("values from a function are wrapped even when they are one object, and stay where they are",
          "[strategy]") {
  Replicas strategy(2);
  const Tensor captured = Tensor::scalar(2.0f, TestBackend::device(1));
  const auto value = strategy.distribute_values_from_function([&](ValueContext) { return captured; });
  REQUIRE_FALSE(value.is_same_object());
  REQUIRE(value[0].device() == TestBackend::device(1));
  REQUIRE(value[1].is_same_object(captured));
  REQUIRE(strategy.reduce(ReduceOp::sum, value).item<float>() == 4.0f);
}

TEST_CASE("a batch has the rows of all replicas", "[strategy]") {
  Replicas strategy(3);
  const auto of_size = [&](ReplicaContext& ctx) {
    return Tensor::zeros({ctx.replica_id_in_sync_group() * 2, 4}, DType::f32, ctx.device());
  };
  const auto x = strategy.run(of_size);  // 0, 2 and 4 rows
  REQUIRE(strategy.num_rows(x) == 6);
  REQUIRE(strategy.num_rows(std::tuple{x, std::map<std::string, PerReplica<Tensor>>{{"y", x}}}) == 6);
  REQUIRE_THROWS_MATCHES(strategy.num_rows(std::tuple{x, strategy.run([] { return Tensor::zeros({3}); })}),
                         InvalidArgument, says("num_rows", "component 1", "has 3 rows", "[0, 4]"));
  REQUIRE_THROWS_MATCHES(strategy.num_rows(strategy.run([] { return Tensor::scalar(1); })), InvalidArgument,
                         says("num_rows", "is a scalar"));
  REQUIRE_THROWS_MATCHES(strategy.num_rows(std::vector<PerReplica<Tensor>>{}), InvalidArgument,
                         says("num_rows", "no tensors"));
}

TEST_CASE("value functions are called in replica order, in cross-replica context", "[strategy]") {
  Replicas strategy(3);
  std::vector<int> order;
  bool cross = true;
  static_cast<void>(strategy.distribute_values_from_function([&](ValueContext ctx) {
    order.push_back(ctx.replica_id_in_sync_group());
    cross = cross && in_cross_replica_context() && &get_strategy() == &strategy;
    return 0;
  }));
  REQUIRE(order == std::vector<int>{0, 1, 2});
  REQUIRE(cross);
}

TEST_CASE("values of different structure are refused", "[strategy]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.distribute_values_from_function([](ValueContext ctx) {
    return std::vector<Tensor>(static_cast<std::size_t>(ctx.replica_id_in_sync_group()), Tensor::scalar(1));
  }),
                         InvalidArgument,
                         says("distribute_values_from_function", "replica 1", "length 1", "length 0"));
}

TEST_CASE("values for one replica come from one call", "[strategy]") {
  OneDeviceStrategy one(TestBackend::device());
  int calls = 0;
  const int value = one.distribute_values_from_function([&](ValueContext ctx) {
    ++calls;
    return 10 * ctx.replica_id_in_sync_group() + ctx.num_replicas_in_sync();
  });
  REQUIRE(value == 1);
  REQUIRE(calls == 1);
  REQUIRE(int(get_strategy().distribute_values_from_function([](ValueContext) { return 5; })) == 5);
}

}  // namespace lockstep::test
