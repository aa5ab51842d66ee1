#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/expected.hpp"
#include "support/world.hpp"

/// Reductions in cross-replica context.
namespace lockstep::test {

namespace {

constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max, ReduceOp::product};

/// A batch whose rows differ in number: replica r has (r + 1) % 4 of them, so that some have none.
std::int64_t num_rows(int replica) { return (replica + 1) % 4; }

Tensor batch(int replica) {
  std::vector<float> rows;
  for (std::int64_t i = 0; i < 2 * num_rows(replica); ++i)
    rows.push_back(static_cast<float>(10 * replica + i) / 3.0f);
  return Tensor::from(rows, {num_rows(replica), 2});
}

Tensor vector_of(int replica) {
  const auto id = static_cast<float>(replica);
  return Tensor::from<float>({id, 1.0f / (id + 1), -id}, {3});
}

/// The same reduction of one process's replicas.
template <class F>
Tensor reduced_in_one_process(ReduceOp op, const F& fn, const Axes& axes = {}) {
  return one_process().reduce(op, values_on(one_process(), fn), axes);
}

}  // namespace

TEST_CASE("reduce without an axis has the bits of one process, on every worker", "[workers]") {
  for (const ReduceOp op : kOps) {
    CAPTURE(op);
    const Tensor reduced = world().strategy.reduce(op, values(vector_of));
    CHECK(difference(reduced, reduced_in_one_process(op, vector_of)) == "");
  }
}

TEST_CASE("reduce along an axis counts the rows of all workers, also where some have none", "[workers]") {
  const World& w = world();
  std::int64_t total_rows = 0;
  double total = 0;
  for (int replica = 0; replica < w.num_replicas; ++replica) {
    total_rows += num_rows(replica);
    for (std::int64_t i = 0; i < 2 * num_rows(replica); ++i)
      total += (10.0 * replica + static_cast<double>(i)) / 3;
  }
  const auto own = values(batch);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max}) {
    for (const Axes& axes : {Axes(0), Axes(-2), Axes({0, 1})}) {
      CAPTURE(op);
      const Tensor reduced = w.strategy.reduce(op, own, axes);
      CHECK(difference(reduced, reduced_in_one_process(op, batch, axes)) == "");
    }
  }
  const float mean = w.strategy.reduce(ReduceOp::mean, own, {0, 1}).item<float>();
  CHECK(std::abs(mean - total / static_cast<double>(2 * total_rows)) < 1e-4 * (1 + std::abs(mean)));
  CHECK(w.strategy.num_rows(own) <= total_rows);
}

TEST_CASE("reduce along an axis without any rows: sum 0, mean NaN, no least", "[workers]") {
  const World& w = world();
  const auto empty = values([](int) { return Tensor::zeros({0, 2}); });
  CHECK(w.strategy.reduce(ReduceOp::sum, empty, 0).to_vector<float>() == std::vector<float>{0, 0});
  for (const float mean : w.strategy.reduce(ReduceOp::mean, empty, 0).to_vector<float>())
    CHECK(std::isnan(mean));
  const Thrown thrown =
      thrown_once(w.strategy, [&] { static_cast<void>(w.strategy.reduce(ReduceOp::min, empty, 0)); });
  CHECK(thrown.is<InvalidArgument>());
}

TEST_CASE("reduce of integers, of host scalars and of nests", "[workers]") {
  const World& w = world();
  const auto counts = w.strategy.run([](ReplicaContext& ctx) { return ctx.replica_id_in_sync_group() + 1; });
  CHECK(w.strategy.reduce(ReduceOp::sum, counts).item<int>() == triangular(w.num_replicas + 1));
  const Tensor mean = w.strategy.reduce(ReduceOp::mean, counts);
  CHECK(mean.dtype() == DType::f64);
  CHECK(mean.item<double>() == (w.num_replicas + 1) / 2.0);
  const auto nest = values([](int replica) {
    return std::pair{vector_of(replica), std::vector{batch(replica)}};
  });
  const auto [plain, rows] = w.strategy.reduce(ReduceOp::sum, nest, 0);
  const auto expected =
      one_process().reduce(ReduceOp::sum,
                           values_on(one_process(),
                                     [](int replica) {
                                       return std::pair{vector_of(replica), std::vector{batch(replica)}};
                                     }),
                           0);
  CHECK(difference(plain, expected.first) == "");
  CHECK(difference(rows[0], expected.second[0]) == "");
}

TEST_CASE("reduce of variables: a mean is the value, a sum is refused; on_read ones are aggregated",
          "[workers]") {
  const World& w = world();
  const Variable mirrored = w.strategy.make_variable(Tensor::scalar(2.5f));
  CHECK(w.strategy.reduce(ReduceOp::mean, mirrored).item<float>() == 2.5f);
  const Thrown thrown =
      thrown_once(w.strategy, [&] { static_cast<void>(w.strategy.reduce(ReduceOp::sum, mirrored)); });
  CHECK(thrown.is<InvalidArgument>());
  Variable on_read = w.strategy.make_variable(
      Tensor::scalar(0.0f),
      {.synchronization = VariableSynchronization::on_read, .aggregation = VariableAggregation::sum});
  w.strategy.run([&](ReplicaContext& ctx) {
    on_read.assign(Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group())));
  });
  const auto ids = static_cast<float>(triangular(w.num_replicas));
  CHECK(w.strategy.reduce(ReduceOp::sum, on_read).item<float>() == ids);
  CHECK(w.strategy.reduce(ReduceOp::mean, on_read).item<float>() == ids / static_cast<float>(w.num_replicas));
}

TEST_CASE("a plain tensor is one contribution of each worker; of one process it has no sum", "[workers]") {
  const World& w = world();
  const Tensor own = Tensor::from<float>({static_cast<float>(w.worker), 1}, {2});
  const auto workers = static_cast<float>(w.num_workers);
  const float ids = workers * (workers - 1) / 2;
  const auto is_ids = [&](const Tensor& t, float divisor) {
    return t.to_vector<float>() == std::vector<float>{ids / divisor, workers / divisor};
  };
  StrategyExtended& extended = w.strategy.extended();
  CHECK(is_ids(w.strategy.reduce(ReduceOp::mean, own), workers));
  CHECK(is_ids(extended.reduce_to(ReduceOp::mean, own, w.devices[0]), workers));
  if (w.num_workers == 1 && w.num_replicas > 1) {
    CHECK(thrown_by([&] { static_cast<void>(w.strategy.reduce(ReduceOp::sum, own)); }).is<InvalidArgument>());
    CHECK(thrown_by([&] {
            static_cast<void>(extended.reduce_to(ReduceOp::sum, own, w.devices[0]));
          }).is<InvalidArgument>());
  } else {
    CHECK(is_ids(w.strategy.reduce(ReduceOp::sum, own), 1));
    CHECK(is_ids(extended.reduce_to(ReduceOp::sum, own, w.devices[0]), 1));
    CHECK(w.strategy.reduce(ReduceOp::sum, 2.0f).item<float>() == 2 * workers);
  }
  CHECK(is_usable(w.strategy));
}

TEST_CASE("a plain tensor is handed to every replica where it is reduced along an axis", "[workers]") {
  const World& w = world();
  const Tensor plain = Tensor::from<float>({1, 2, 6}, {3});
  CHECK(w.strategy.reduce(ReduceOp::sum, plain, 0).item<float>() ==
        9.0f * static_cast<float>(w.num_replicas));
  CHECK(w.strategy.reduce(ReduceOp::mean, plain, 0).item<float>() == 3.0f);
}

TEST_CASE("replicas of different shapes are refused on every worker, with both shapes", "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  const auto unlike =
      values([&](int replica) { return Tensor::zeros({replica == w.last_replica() ? 3 : 2}); });
  const Thrown thrown =
      thrown_once(w.strategy, [&] { static_cast<void>(w.strategy.reduce(ReduceOp::sum, unlike)); });
  CHECK(thrown.is<InvalidArgument>());
  CHECK(thrown.has("[3]"));
  CHECK(thrown.has("[2]"));
  CHECK(thrown.names(w.last_replica()));
}

TEST_CASE("reduce_to leaves the result on the destinations", "[workers]") {
  const World& w = world();
  StrategyExtended& extended = w.strategy.extended();
  const auto own = values(vector_of);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    const Tensor expected = reduced_in_one_process(op, vector_of);
    const Mirrored<Tensor> everywhere = extended.reduce_to(op, own, own);
    CHECK(everywhere.size() == w.num_local_replicas);
    for (int i = 0; i < everywhere.size(); ++i) {
      CHECK(everywhere[i].device() == w.devices[static_cast<std::size_t>(i)]);
      CHECK(difference(everywhere[i], expected) == "");
    }
    const Mirrored<Tensor> one = extended.reduce_to(op, own, w.devices.back());
    CHECK(one.size() == 1);
    CHECK(one[0].device() == w.devices.back());
    CHECK(difference(one[0], expected) == "");
    const Variable variable = w.strategy.make_variable(Tensor::zeros({3}));
    CHECK(extended.reduce_to(op, own, variable).size() == w.num_local_replicas);
    CHECK(variable.value().to_vector<float>() == std::vector<float>{0, 0, 0});
  }
}

TEST_CASE("batch_reduce_to gives what the single calls give, in their order", "[workers]") {
  const World& w = world();
  StrategyExtended& extended = w.strategy.extended();
  std::vector<std::pair<ReduceValue, Destination>> pairs;
  std::vector<Tensor> expected;
  for (int k = 0; k < 40; ++k) {
    const auto fn = [k](int replica) {
      return Tensor::arange(static_cast<float>(k)) / static_cast<float>(3 * replica + k + 1);
    };
    const auto own = values(fn);
    pairs.emplace_back(own, own);
    expected.push_back(reduced_in_one_process(ReduceOp::sum, fn));
  }
  const auto results = extended.batch_reduce_to(ReduceOp::sum, pairs);
  auto started = extended.start_batch_reduce_to(ReduceOp::sum, pairs);
  const auto later = started.wait();
  CHECK(results.size() == pairs.size());
  for (std::size_t k = 0; k < results.size(); ++k)
    for (int i = 0; i < w.num_local_replicas; ++i) {
      CHECK(difference(results[k][i], expected[k]) == "");
      CHECK(difference(later[k][i], expected[k]) == "");
    }
  CHECK(extended.batch_reduce_to(ReduceOp::sum, {}).empty());
}

TEST_CASE("reduce_to of sparse rows concatenates those of all workers", "[workers]") {
  const World& w = world();
  const auto rows = [](int replica) {
    const auto id = static_cast<float>(replica);
    return IndexedSlices{
        Tensor::from<float>({id, id + 1}, {1, 2}), Tensor::from<std::int64_t>({replica % 2}, {1}), {3, 2}};
  };
  const auto sum = w.strategy.extended().reduce_to(ReduceOp::sum, values(rows), w.devices[0]);
  const auto expected =
      one_process().extended().reduce_to(ReduceOp::sum, values_on(one_process(), rows), Device("CPU:0"));
  CHECK(difference(sum[0].indices, expected[0].indices) == "");
  CHECK(difference(sum[0].values, expected[0].values) == "");
}

TEST_CASE("broadcast_to copies to this worker's devices", "[workers]") {
  const World& w = world();
  StrategyExtended& extended = w.strategy.extended();
  const Mirrored<Tensor> copies = extended.broadcast_to(Tensor::from<float>({1, 2}, {2}));
  CHECK(copies.size() == w.num_local_replicas);
  for (int i = 0; i < copies.size(); ++i) {
    CHECK(copies[i].device() == w.devices[static_cast<std::size_t>(i)]);
    CHECK(copies[i].to_vector<float>() == std::vector<float>{1, 2});
  }
  CHECK(extended.broadcast_to(3) == 3);
}

TEST_CASE("a merge function is called once in each process, with its replicas' values in order",
          "[workers]") {
  const World& w = world();
  int calls = 0;
  std::vector<int> seen;
  const auto results = w.strategy.run([&](ReplicaContext& ctx) {
    const int value = 3 + ctx.replica_id_in_sync_group();
    const int sum = ctx.merge_call(
        [&](Strategy& strategy, const PerReplica<int>& values) {
          ++calls;
          seen.assign(values.begin(), values.end());
          const bool is_outside = get_replica_context() == nullptr && in_cross_replica_context();
          return is_outside ? strategy.reduce(ReduceOp::sum, values).template item<int>() : -1;
        },
        value);
    return sum + value;
  });
  const int total = 3 * w.num_replicas + static_cast<int>(triangular(w.num_replicas));
  CHECK(calls == 1);
  CHECK(static_cast<int>(seen.size()) == w.num_local_replicas);
  for (int i = 0; i < w.num_local_replicas; ++i) {
    CHECK(seen[static_cast<std::size_t>(i)] == 3 + w.first_replica + i);
    CHECK(results[i] == total + 3 + w.first_replica + i);
  }
}

TEST_CASE("a merge function may run, reduce and update variables", "[workers]") {
  const World& w = world();
  Variable variable = w.strategy.make_variable(Tensor::scalar(1.0f));
  int num_replicas = 0;
  const auto results = w.strategy.run([&](ReplicaContext& ctx) {
    return ctx.merge_call(
        [&](Strategy& strategy, const PerReplica<float>& values) {
          const Tensor mean = strategy.reduce(ReduceOp::mean, values);
          const auto counts = strategy.run(
              [](ReplicaContext& inner) { return inner.all_reduce(ReduceOp::sum, 1).item<int>(); });
          num_replicas = counts[0];
          strategy.extended().update(variable, [&](Tensor& local) { local.add_(mean.to(local.device())); });
          return variable.value();
        },
        static_cast<float>(ctx.replica_id_in_sync_group()));
  });
  CHECK(num_replicas == w.num_replicas);
  const float expected = 1 + static_cast<float>(w.num_replicas - 1) / 2;
  for (int i = 0; i < w.num_local_replicas; ++i) CHECK(results[i].item<float>() == expected);
}

}  // namespace lockstep::test
