// Training steps take nothing from the heap in steady state; where a call returns a std::vector, that alone.
#include "support/steady_state.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;
using ls::ReduceOp;
using ls::ReplicaContext;
using ls::Tensor;
using ls::test::allocations_in_run;
using ls::test::allocations_of;
using ls::test::host_strategy;
using ls::test::kSteps;

namespace steady {

struct Losses {
  Tensor data;
  Tensor weights;
};
LOCKSTEP_NEST(Losses, data, weights)

}  // namespace steady

namespace {

Tensor ones(const ls::Shape& shape = {10}) { return Tensor::ones(shape); }

/// One tensor on each replica's device.
ls::PerReplica<Tensor> ones_per_replica(ls::Strategy& strategy, const ls::Shape& shape = {10}) {
  return strategy.run([&] { return ones(shape); });
}

}  // namespace

TEST_CASE("all_reduce of a nest allocates nothing in steady state", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3);
  ls::MirroredStrategy strategy = host_strategy(n);
  const auto one = ones_per_replica(strategy), many = ones_per_replica(strategy, {1000, 100});
  const auto mine = [&](ReplicaContext& context, const ls::PerReplica<Tensor>& value) -> const Tensor& {
    return value[context.local_index()];
  };
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          static_cast<void>(
              context.all_reduce(ReduceOp::sum, std::tuple(mine(context, one), mine(context, many))));
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          static_cast<void>(context.all_reduce(ReduceOp::mean, std::pair(mine(context, one), 1.0f)));
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          static_cast<void>(
              context.all_reduce(ReduceOp::sum, std::array{mine(context, one), mine(context, one)}));
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          static_cast<void>(
              context.all_reduce(ReduceOp::sum, steady::Losses{mine(context, one), mine(context, one)}));
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          context.start_all_reduce(ReduceOp::sum, std::pair(mine(context, one), mine(context, many))).wait();
        }) == 0);
}

TEST_CASE("all_reduce of a list allocates its result in steady state", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3);
  const std::size_t size = GENERATE(1U, 8U, 200U);
  const ls::CommunicationOptions options{.bytes_per_pack = GENERATE(0, 100)};
  ls::MirroredStrategy strategy = host_strategy(n);
  std::vector<std::vector<Tensor>> lists(static_cast<std::size_t>(n));
  strategy.run([&](ReplicaContext& context) {
    lists[static_cast<std::size_t>(context.local_index())] = std::vector<Tensor>(size, ones());
  });
  CHECK(allocations_in_run(
            strategy,
            [&](ReplicaContext& context) {
              static_cast<void>(context.all_reduce(
                  ReduceOp::sum, lists[static_cast<std::size_t>(context.local_index())], options));
            },
            n * kSteps) == n * kSteps);
}

TEST_CASE("a PackedReduction allocates its result in steady state", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3);
  ls::MirroredStrategy strategy = host_strategy(n);
  const auto values = ones_per_replica(strategy);
  const std::int64_t bytes_per_pack = GENERATE(0, 100);
  using Values = ls::PackedReduction::Values;
  const auto what = GENERATE(Values::kept, Values::given);
  const std::size_t num_values = what == Values::kept ? 10 : 1;  // those that are given must not overlap
  std::atomic<int> num_wrong = 0;
  CHECK(allocations_in_run(
            strategy,
            [&](ReplicaContext& context) {
              ls::PackedReduction reduction(context, ReduceOp::sum, {.bytes_per_pack = bytes_per_pack}, what);
              for (std::size_t k = 0; k < num_values; ++k) reduction.add(values[context.local_index()]);
              if (reduction.wait().size() != num_values) ++num_wrong;
            },
            n * kSteps) == n * kSteps);
  CHECK(num_wrong == 0);
}

TEST_CASE("all_gather allocates nothing in steady state", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3);
  const int axis = GENERATE(0, 1);
  ls::MirroredStrategy strategy = host_strategy(n);
  const auto values = ones_per_replica(strategy, {4, 6});
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          static_cast<void>(context.all_gather(values[context.local_index()], axis));
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          const Tensor& mine = values[context.local_index()];
          static_cast<void>(context.all_gather(std::tuple(mine, mine), axis));
        }) == 0);
}

TEST_CASE("merge_call with arguments and a result allocates nothing in steady state", "[strategy][host]") {
  ls::MirroredStrategy strategy = host_strategy(GENERATE(1, 2, 3));
  const auto values = ones_per_replica(strategy);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          context.merge_call([](ls::Strategy& in,
                                const ls::PerReplica<Tensor>& all) { return in.reduce(ReduceOp::sum, all); },
                             values[context.local_index()]);
        }) == 0);
}

TEST_CASE("results of run allocate nothing in steady state", "[strategy][host]") {
  ls::MirroredStrategy strategy = host_strategy(GENERATE(1, 2, 3));
  const auto values = ones_per_replica(strategy);
  CHECK(allocations_of([&] { strategy.run([](const Tensor& x) { return x + x; }, values); }) == 0);
  CHECK(allocations_of([&] {
          strategy.run([](const Tensor& x, int k) { return std::tuple(x + x, k); }, values, 3);
        }) == 0);
}

TEST_CASE("reductions in cross-replica context allocate nothing in steady state", "[strategy][host]") {
  const int n = GENERATE(1, 2, 3);
  ls::MirroredStrategy strategy = host_strategy(n);
  ls::StrategyExtended& extended = strategy.extended();
  const auto values = ones_per_replica(strategy), many = ones_per_replica(strategy, {1000, 100});
  const auto scope = strategy.scope();
  const ls::Variable variable(ones());
  CHECK(allocations_of([&] { static_cast<void>(strategy.reduce(ReduceOp::sum, values)); }) == 0);
  CHECK(allocations_of([&] { static_cast<void>(strategy.reduce(ReduceOp::mean, values, 0)); }) == 0);
  CHECK(allocations_of(
            [&] { static_cast<void>(strategy.reduce(ReduceOp::sum, std::tuple(values, many))); }) == 0);
  CHECK(allocations_of([&] { static_cast<void>(strategy.gather(values, 0)); }) == 0);
  CHECK(allocations_of([&] { static_cast<void>(extended.reduce_to(ReduceOp::mean, values, variable)); }) ==
        0);
  CHECK(allocations_of([&] { static_cast<void>(extended.reduce_to(ReduceOp::sum, many, "CPU:0")); }) == 0);
  CHECK(allocations_of([&] { static_cast<void>(extended.broadcast_to(values[0], variable)); }) == 0);
  const std::vector<std::pair<ls::ReduceValue, ls::Destination>> pairs = {
      {values, variable}, {values, "CPU:0"}, {many, many}, {values, variable}};
  CHECK(allocations_of([&] { static_cast<void>(extended.batch_reduce_to(ReduceOp::sum, pairs)); }, kSteps) ==
        kSteps);
  CHECK(allocations_of([&] { static_cast<void>(strategy.local_results(values)); }, kSteps) == kSteps);
}

TEST_CASE("reads and writes of variables allocate nothing in steady state", "[strategy][host]") {
  ls::MirroredStrategy strategy = host_strategy(GENERATE(1, 2, 3));
  const auto aggregation = GENERATE(ls::VariableAggregation::sum, ls::VariableAggregation::mean);
  const auto values = ones_per_replica(strategy);
  ls::Variable mirrored = strategy.make_variable(ones(), {.aggregation = aggregation});
  ls::Variable on_read = strategy.make_variable(
      ones(), {.synchronization = ls::VariableSynchronization::on_read, .aggregation = aggregation});
  const Tensor one = ones();
  const ls::Mirrored<Tensor> addend = strategy.extended().broadcast_to(one);
  CHECK(allocations_of([&] { on_read.value(); }) == 0);
  CHECK(allocations_of([&] { mirrored.value(); }) == 0);
  CHECK(allocations_of([&] { on_read.assign(one); }) == 0);
  CHECK(allocations_of([&] { mirrored.assign_add(one).assign(0); }) == 0);
  CHECK(allocations_of([&] {
          strategy.extended().update(
              mirrored, [](Tensor& local, const Tensor& x) { local.add_(x); }, addend);
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          on_read.assign_add(values[context.local_index()]);
          on_read.value();
          mirrored.value();
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext&) {
          const ls::sync_on_read synced;
          on_read.value();
        }) == 0);
  CHECK(allocations_in_run(strategy, [&](ReplicaContext& context) {
          mirrored.assign_add(values[context.local_index()]);
        }) == 0);
}

TEST_CASE("metrics allocate nothing in steady state", "[metrics][host]") {
  const int n = GENERATE(1, 2, 3);
  const bool is_central = GENERATE(false, true);
  const std::unique_ptr<ls::Strategy> strategy = ls::test::host_or_central(n, is_central);
  const auto scope = strategy->scope();
  ls::metrics::Mean mean;
  ls::metrics::Sum sum;
  ls::metrics::Accuracy accuracy;
  ls::metrics::TopK top_k(2);
  const Tensor values = ones(), labels = Tensor::from<std::int64_t>({0, 1}, {2});
  const Tensor logits = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto update = [&] {
    mean.update(values);
    mean.update(values, values);
    sum.update(values);
    accuracy.update(labels, logits);
    top_k.update(labels, logits);
  };
  CHECK(allocations_in_run(*strategy, [&](ReplicaContext&) { update(); }) == 0);
  CHECK(allocations_in_run(*strategy, [&](ReplicaContext&) { mean.result(), accuracy.result(); }) == 0);
  CHECK(allocations_of([&] { update(); }) == 0);
  CHECK(allocations_of([&] { mean.result(), sum.result(), accuracy.result(), top_k.result(); }) == 0);
  CHECK(allocations_of([&] { mean.reset(); }) == 0);
}

TEST_CASE("a function of a strategy allocates nothing in steady state", "[strategy][function][host]") {
  ls::MirroredStrategy strategy = host_strategy(GENERATE(1, 2, 3));
  const auto values = ones_per_replica(strategy), others = ones_per_replica(strategy, {20});
  ls::Variable weights = strategy.make_variable(ones(), {.aggregation = ls::VariableAggregation::mean});
  auto nothing = strategy.function([] {});
  auto step = strategy.function([&](ReplicaContext& context, const Tensor& x, float by) {
    weights.assign_add(x);
    return std::tuple(context.all_reduce(ReduceOp::sum, x * by), weights);
  });
  auto sums = strategy.function([](const Tensor& x) { return x + x; });
  CHECK(allocations_of([&] { nothing(); }) == 0);
  CHECK(allocations_of([&] { step(values, 2.0f); }) == 0);
  CHECK(allocations_of([&] { sums(values), sums(others); }) == 0);
}
