#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Nests.
namespace lockstep::test {

struct Batch {
  Tensor images;
  Tensor labels;
  std::tuple<Tensor, Tensor> sizes;
};
LOCKSTEP_NEST(Batch, images, labels, sizes)

struct Opaque {
  int value = 0;
};

namespace {

float id_of(const ReplicaContext& ctx) { return static_cast<float>(ctx.replica_id_in_sync_group()); }

}  // namespace

TEST_CASE("run keeps the structure of tuples, pairs, arrays, vectors and maps", "[strategy][nest]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    const float id = id_of(ctx);
    return std::tuple{
        std::pair{id, Tensor::scalar(id)}, std::array<Tensor, 2>{Tensor::scalar(id), Tensor::scalar(-id)},
        std::vector<std::pair<Tensor, int>>{{Tensor::scalar(id), 4}},
        std::map<std::string, std::map<std::string, Tensor>>{{"outer", {{"inner", Tensor::scalar(id)}}}}};
  });
  STATIC_REQUIRE(
      std::is_same_v<decltype(result),
                     const std::tuple<std::pair<PerReplica<float>, PerReplica<Tensor>>,
                                      std::array<PerReplica<Tensor>, 2>,
                                      std::vector<std::pair<PerReplica<Tensor>, PerReplica<int>>>,
                                      std::map<std::string, std::map<std::string, PerReplica<Tensor>>>>>);
  const auto& [pair, array, vector, map] = result;
  REQUIRE(pair.first[1] == 1.0f);
  REQUIRE(pair.second[1].item<float>() == 1.0f);
  REQUIRE(array[1][1].item<float>() == -1.0f);
  REQUIRE(vector[0].first[1].item<float>() == 1.0f);
  REQUIRE(vector[0].second[0] == 4);
  REQUIRE(map.at("outer").at("inner")[1].item<float>() == 1.0f);

  // And back into replicas.
  const auto sums = strategy.run(
      [](const auto& nest) {
        const auto& [p, a, v, m] = nest;
        return p.first + p.second.template item<float>() + a[0].template item<float>() +
               v[0].first.template item<float>() + m.at("outer").at("inner").template item<float>();
      },
      result);
  REQUIRE((sums[0] == 0.0f && sums[1] == 5.0f));
}

TEST_CASE("maps with other keys and vectors of other length are refused, however deep", "[strategy][nest]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    return std::map<std::string, Tensor>{
        {ctx.replica_id_in_sync_group() == 0 ? "a" : "b", Tensor::scalar(1)}};
  }),
                         InvalidArgument, says("run", "replica 1", "map with other keys"));
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    return std::tuple{1, std::vector<std::vector<Tensor>>{std::vector<Tensor>(
                             static_cast<std::size_t>(2 - ctx.replica_id_in_sync_group()))}};
  }),
                         InvalidArgument, says("replica 1", "length 1", "length 2"));
}

TEST_CASE("collectives refuse nests of other structure, though they have as many leaves",
          "[strategy][nest]") {
  Replicas strategy(2);
  using Map = std::map<std::string, Tensor>;
  const auto map_of = [](ReplicaContext& ctx) {
    return Map{{"w", Tensor::scalar(1.0f)},
               {ctx.replica_id_in_sync_group() == 0 ? "x" : "y", Tensor::scalar(2.0f)}};
  };
  REQUIRE_THROWS_MATCHES(
      strategy.run([&](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, map_of(ctx)); }),
      CollectiveMismatch, says("all_reduce(sum)", "replica 1", "{w: *, y: *}", "{w: *, x: *}", "same keys"));
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    return ctx.all_gather(Map{{ctx.replica_id_in_sync_group() == 0 ? "x" : "y", Tensor::zeros({2})}}, 0);
  }),
                         CollectiveMismatch,
                         says("all_gather", "replica 1", "{y: *}", "{x: *}", "same keys"));
  // Lengths within, and what is absent.
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    const bool first = ctx.replica_id_in_sync_group() == 0;
    const std::vector<Tensor> one(1, Tensor::scalar(1.0f)), two(2, Tensor::scalar(1.0f));
    return ctx.all_reduce(ReduceOp::sum,
                          std::vector<std::vector<Tensor>>{first ? one : two, first ? two : one});
  }),
                         CollectiveMismatch, says("all_reduce(sum)", "[[*, *], [*]]", "[[*], [*, *]]"));
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    std::array<std::optional<Tensor>, 2> nest;
    nest[static_cast<std::size_t>(ctx.replica_id_in_sync_group())] = Tensor::scalar(1.0f);
    return ctx.all_reduce(ReduceOp::sum, nest);
  }),
                         CollectiveMismatch, says("all_reduce(sum)", "[none, *]", "[*, none]"));
  // The strategy goes on.
  const auto sums = strategy.run([](ReplicaContext& ctx) {
    return ctx.all_reduce(ReduceOp::sum, Map{{"w", Tensor::scalar(id_of(ctx))}});
  });
  REQUIRE(sums.at("w")[1].item<float>() == 1.0f);
}

TEST_CASE("a registered struct is one leaf of its type that is taken apart where it matters",
          "[strategy][nest]") {
  Replicas strategy(2);
  const auto batches = strategy.run([](ReplicaContext& ctx) {
    const float id = id_of(ctx);
    return Batch{Tensor::from<float>({id, 2}, {2}),
                 Tensor::scalar(3 * id),
                 {Tensor::scalar(1.0f), Tensor::scalar(id)}};
  });
  STATIC_REQUIRE(std::is_same_v<decltype(batches), const PerReplica<Batch>>);
  const auto labels = strategy.run([](const Batch& batch) { return batch.labels; }, batches);
  REQUIRE(items<float>(labels) == std::vector<float>{0, 3});
  REQUIRE(strategy.local_results(batches)[1].labels.item<float>() == 3.0f);
}

TEST_CASE("a registered struct is reduced and gathered member by member", "[strategy][nest]") {
  Replicas strategy(2);
  const auto batches = strategy.run([](ReplicaContext& ctx) {
    const float id = id_of(ctx);
    return Batch{Tensor::from<float>({id, 2}, {2}),
                 Tensor::from<float>({3 * id}, {1}),
                 {Tensor::from<float>({1}, {1}), Tensor::from<float>({id}, {1})}};
  });
  const Batch sum = strategy.reduce(ReduceOp::sum, batches);
  REQUIRE(sum.images.to_vector<float>() == std::vector<float>{1, 4});
  REQUIRE(sum.labels.item<float>() == 3.0f);
  REQUIRE(std::get<0>(sum.sizes).item<float>() == 2.0f);
  REQUIRE(std::get<1>(sum.sizes).item<float>() == 1.0f);
  const Batch rows = strategy.gather(batches, 0);
  REQUIRE(rows.images.to_vector<float>() == std::vector<float>{0, 2, 1, 2});
  REQUIRE(std::get<1>(rows.sizes).to_vector<float>() == std::vector<float>{0, 1});
  const auto across = strategy.run(
      [](ReplicaContext& ctx, const Batch& b) { return ctx.all_reduce(ReduceOp::sum, b); }, batches);
  REQUIRE(across[1].labels.item<float>() == 3.0f);
  REQUIRE(std::get<1>(across[0].sizes).item<float>() == 1.0f);
}

TEST_CASE("optionals are leaves of results and nests of arguments", "[strategy][nest]") {
  Replicas strategy(2);
  const auto result = strategy.run([](ReplicaContext& ctx) {
    return ctx.replica_id_in_sync_group() == 0 ? std::optional<Tensor>()
                                               : std::optional(Tensor::scalar(1.0f));
  });
  STATIC_REQUIRE(std::is_same_v<decltype(result), const PerReplica<std::optional<Tensor>>>);
  REQUIRE_FALSE(result[0].has_value());
  REQUIRE(result[1]->item<float>() == 1.0f);
  const auto present = strategy.run([](const std::optional<Tensor>& x) { return x.has_value(); }, result);
  REQUIRE((!present[0] && present[1]));
  const std::optional<PerReplica<Tensor>> argument = scalars<float>({1, 2});
  const auto seen = strategy.run([](const std::optional<Tensor>& x) { return x->item<float>(); }, argument);
  REQUIRE(seen[1] == 2.0f);
  REQUIRE(strategy.reduce(ReduceOp::sum, argument)->item<float>() == 3.0f);
}

TEST_CASE("anything else that can be copied is an opaque leaf", "[strategy][nest]") {
  Replicas strategy(2);
  const auto [opaque, shared, numbers] = strategy.run([](ReplicaContext& ctx) {
    const int id = ctx.replica_id_in_sync_group();
    return std::tuple{Opaque{id}, std::make_shared<int>(id), std::vector<float>{1, 2}};
  });
  STATIC_REQUIRE(std::is_same_v<decltype(opaque), const PerReplica<Opaque>>);
  STATIC_REQUIRE(std::is_same_v<decltype(numbers), const PerReplica<std::vector<float>>>);
  REQUIRE(opaque[1].value == 1);
  REQUIRE(*shared[1] == 1);
  REQUIRE(numbers[1] == std::vector<float>{1, 2});
}

TEST_CASE("results of bool are a list of bools", "[strategy][nest]") {
  Replicas strategy(3);
  const PerReplica<bool> odd =
      strategy.run([](ReplicaContext& ctx) { return ctx.replica_id_in_sync_group() % 2 == 1; });
  REQUIRE((!odd[0] && odd[1] && !odd[2]));
  REQUIRE(strategy.local_results(odd) == std::vector<bool>{false, true, false});
  const auto back = strategy.run([](bool x) { return !x; }, odd);
  REQUIRE((back[0] && !back[1]));
}

TEST_CASE("text given as a pointer is kept as a string", "[strategy][nest]") {
  Replicas strategy(2);
  const auto text =
      strategy.run([](const std::string& x) { return x.c_str() == nullptr ? "" : "abc"; }, "xyz");
  STATIC_REQUIRE(std::is_same_v<decltype(text), const PerReplica<std::string>>);
  REQUIRE(text[1] == "abc");
}

TEST_CASE("an empty container is a result of its own", "[strategy][nest]") {
  Replicas strategy(2);
  const auto result = strategy.run([] {
    return std::tuple{std::vector<Tensor>(), std::map<std::string, Tensor>()};
  });
  REQUIRE(std::get<0>(result).empty());
  REQUIRE(std::get<1>(result).empty());
  REQUIRE(strategy.reduce(ReduceOp::sum, std::get<0>(result)).empty());
}

}  // namespace lockstep::test
