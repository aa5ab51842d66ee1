#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/expected.hpp"
#include "support/test_backend.hpp"
#include "support/world.hpp"

/// Who the replicas are, and what `run` takes and gives.
namespace lockstep::test {

namespace {

/// Whether value[i] is fn(global id of local replica i), for all of them.
template <class Value, class F>
bool is_of_each_replica(const Value& value, const F& fn) {
  bool is_right = value.size() == world().num_local_replicas;
  for (int i = 0; is_right && i < value.size(); ++i) is_right = value[i] == fn(world().first_replica + i);
  return is_right;
}

}  // namespace

TEST_CASE("the strategy counts replicas over all workers", "[workers]") {
  const World& w = world();
  CHECK(w.strategy.num_replicas_in_sync() == w.num_replicas);
  CHECK(w.strategy.num_logical_devices() == 1);
  CHECK((w.strategy.cluster_resolver() != nullptr) == (w.num_workers > 1));
  CHECK(w.strategy.extended().worker_devices() == w.devices);
  CHECK(w.strategy.extended().parameter_devices() == w.devices);
  CHECK(w.strategy.extended().should_init());
  CHECK(w.strategy.extended().should_checkpoint() == (w.worker == 0));
  CHECK(w.strategy.extended().should_save_summary() == (w.worker == 0));
  CHECK(is_usable(w.strategy));
}

TEST_CASE("a replica knows its global id, its place among the local ones and its device", "[workers]") {
  const World& w = world();
  const auto ids = w.strategy.run([](ReplicaContext& ctx) { return ctx.replica_id_in_sync_group(); });
  CHECK(is_of_each_replica(ids, [](int replica) { return replica; }));
  const auto others = w.strategy.run([&](ReplicaContext& ctx) {
    return std::tuple{ctx.local_index(), ctx.num_replicas_in_sync(), ctx.device(), current_device(),
                      &ctx.strategy() == &w.strategy};
  });
  const auto& [local, count, device, current, is_same] = others;
  CHECK(is_of_each_replica(local, [&](int replica) { return replica - w.first_replica; }));
  CHECK(is_of_each_replica(count, [&](int) { return w.num_replicas; }));
  CHECK(is_of_each_replica(device, [&](int replica) { return w.device(replica); }));
  CHECK(is_of_each_replica(current, [&](int replica) { return w.device(replica); }));
  CHECK(is_of_each_replica(is_same, [](int) { return true; }));
}

TEST_CASE("every replica of every worker runs once", "[workers]") {
  const World& w = world();
  const auto counts = w.strategy.run([&](ReplicaContext& ctx) {
    std::vector<std::int32_t> mine(static_cast<std::size_t>(w.num_replicas), 0);
    mine[static_cast<std::size_t>(ctx.replica_id_in_sync_group())] = 1;
    return ctx.all_reduce(ReduceOp::sum, Tensor::from(mine, Shape(w.num_replicas))).to_vector<std::int32_t>();
  });
  for (const auto& count : counts)
    CHECK(count == std::vector<std::int32_t>(static_cast<std::size_t>(w.num_replicas), 1));
}

TEST_CASE("run gives each replica its component, and everything else unchanged", "[workers]") {
  const World& w = world();
  const auto tensors = values([](int replica) { return Tensor::scalar(replica + 0.5f); });
  const auto numbers = w.strategy.distribute_values_from_function(
      [](ValueContext context) { return 10 * context.replica_id_in_sync_group(); });
  const Mirrored<Tensor> mirrored = w.strategy.extended().broadcast_to(Tensor::scalar(7.0f));
  Variable variable = w.strategy.make_variable(Tensor::scalar(100.0f));
  const auto sums = w.strategy.run(
      [](ReplicaContext&, const Tensor& own, int number, const Tensor& same, const Variable& v, float plain,
         const std::optional<Tensor>& nothing) {
        return own.item<float>() + static_cast<float>(number) + same.item<float>() + v.value().item<float>() +
               plain + (nothing ? 1.0f : 0.0f);
      },
      tensors, numbers, mirrored, variable, 1000.0f, std::optional<Tensor>());
  CHECK(is_of_each_replica(sums, [](int replica) { return static_cast<float>(11 * replica) + 1107.5f; }));
}

TEST_CASE("run walks through nests of arguments and of results", "[workers]") {
  const World& w = world();
  using Inner = std::map<std::string, std::vector<Tensor>>;
  const auto nest = values([](int replica) {
    return std::tuple{Tensor::scalar(replica),
                      Inner{{"a", {Tensor::scalar(2 * replica), Tensor::scalar(3 * replica)}}}};
  });
  const auto results = w.strategy.run(
      [](ReplicaContext& ctx, const Tensor& first, const Inner& rest) {
        const int sum = first.item<int>() + rest.at("a")[0].item<int>() + rest.at("a")[1].item<int>();
        return std::tuple{sum, Inner{{"b", {Tensor::scalar(ctx.replica_id_in_sync_group())}}},
                          std::pair{std::string("text"), sum > 0}};
      },
      std::get<0>(nest), std::get<1>(nest));
  const auto& [sum, map, pair] = results;
  CHECK(is_of_each_replica(sum, [](int replica) { return 6 * replica; }));
  CHECK(is_of_each_replica(pair.first, [](int) { return std::string("text"); }));
  CHECK(is_of_each_replica(pair.second, [](int replica) { return replica > 0; }));
  const auto& ids = map.at("b")[0];
  REQUIRE(ids.size() == w.num_local_replicas);
  for (int i = 0; i < ids.size(); ++i) {
    CHECK(ids[i].item<int>() == w.first_replica + i);
    CHECK(ids[i].device() == w.devices[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("a variable that run returns is the variable, and nothing stays nothing", "[workers]") {
  const World& w = world();
  Variable variable = w.strategy.make_variable(Tensor::scalar(1.0f));
  const Variable same = w.strategy.run([&] { return variable; });
  CHECK(same == variable);
  std::atomic<int> calls{0};
  w.strategy.run([&] { ++calls; });
  CHECK(calls == w.num_local_replicas);
}

TEST_CASE("local results are those of this process, in replica order", "[workers]") {
  const World& w = world();
  const auto own = values([](int replica) { return Tensor::scalar(replica); });
  const auto results = w.strategy.local_results(std::pair{own, Tensor::scalar(-1)});
  REQUIRE(results.size() == static_cast<std::size_t>(w.num_local_replicas));
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].first.item<int>() == w.first_replica + static_cast<int>(i));
    CHECK(results[i].second.item<int>() == -1);
  }
  CHECK(w.strategy.local_results(Tensor::scalar(5)).size() == 1);
}

TEST_CASE("values are made with global ids, in replica order, and always wrapped", "[workers]") {
  const World& w = world();
  std::vector<int> ids, counts;
  const auto made = w.strategy.distribute_values_from_function([&](ValueContext context) {
    ids.push_back(context.replica_id_in_sync_group());
    counts.push_back(context.num_replicas_in_sync());
    return std::tuple{w.num_replicas - context.replica_id_in_sync_group(), Tensor::scalar(1)};
  });
  std::vector<int> expected;
  for (int replica = w.first_replica; replica < w.end_replica(); ++replica) expected.push_back(replica);
  CHECK(ids == expected);
  CHECK(counts == std::vector<int>(expected.size(), w.num_replicas));
  CHECK(is_of_each_replica(std::get<0>(made), [&](int replica) { return w.num_replicas - replica; }));
  CHECK(std::get<1>(made).size() == w.num_local_replicas);
}

TEST_CASE("two strategies on the same devices take turns", "[workers]") {
  const auto second = world().make_strategy();
  CHECK(second->num_replicas_in_sync() == world().num_replicas);
  for (int round = 0; round < 3; ++round) {
    CHECK(is_usable(*second));
    CHECK(is_usable(world().strategy));
  }
}

TEST_CASE("a thousand runs in a row stay in step", "[workers]") {
  const World& w = world();
  const int num_runs = kSlowBuild ? 100 : 1000;
  std::int64_t total = 0;
  for (int round = 0; round < num_runs; ++round) {
    const auto sums = w.strategy.run([round](ReplicaContext& ctx) {
      return ctx.all_reduce(ReduceOp::sum, std::int64_t{round} + ctx.replica_id_in_sync_group())
          .item<std::int64_t>();
    });
    total += sums[0];
  }
  CHECK(total == triangular(num_runs) * w.num_replicas + num_runs * triangular(w.num_replicas));
}

}  // namespace lockstep::test
