#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// CentralStorageStrategy.
namespace lockstep::test {

using Aggregation = VariableAggregation;

namespace {

Tensor id_tensor(const ReplicaContext& ctx) {
  return Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group()));
}

}  // namespace

TEST_CASE("central storage: variables live once, and replicas read them", "[strategy][central]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const Device parameters = GENERATE_COPY(values({Device("CPU:9"), TestBackend::device(0)}));
  CentralStorageStrategy strategy(TestBackend::devices(n), parameters);
  REQUIRE(strategy.name() == "CentralStorageStrategy");
  REQUIRE(strategy.num_replicas_in_sync() == n);
  const auto scope = strategy.scope();
  Variable variable(Tensor::from<float>({1, 2}, {2}), {.name = "w"});
  REQUIRE(Destination(variable).devices() == std::vector{parameters});
  REQUIRE(strategy.local_results(variable).size() == 1);
  REQUIRE(variable.value().device() == parameters);
  const auto read =
      strategy.run([&](ReplicaContext& ctx) { return variable.value() * (id_tensor(ctx) + 1.0f); });
  for (int i = 0; i < n; ++i) {
    REQUIRE(read[i].device() == TestBackend::device(i));
    REQUIRE(read[i].to_vector<float>() ==
            std::vector<float>{1.0f + static_cast<float>(i), 2.0f + 2.0f * static_cast<float>(i)});
  }
  variable.assign_add(1.0f);
  REQUIRE(variable.value().to_vector<float>() == std::vector<float>{2, 3});
}

TEST_CASE("central storage: writes in replicas are aggregated", "[strategy][central]") {
  CentralStorageStrategy strategy(TestBackend::devices(2), "CPU:9");
  const auto scope = strategy.scope();
  const auto synchronization = GENERATE(VariableSynchronization::automatic, VariableSynchronization::on_read);
  const auto written = [&](Aggregation aggregation) {
    Variable variable(Tensor::scalar(1.0f),
                      {.name = "v", .synchronization = synchronization, .aggregation = aggregation});
    const auto seen =
        strategy.run([&](ReplicaContext& ctx) { return variable.assign_add(id_tensor(ctx) + 1.0f).value(); });
    REQUIRE(seen[1].item<float>() == variable.value().item<float>());
    return variable.value().item<float>();
  };
  REQUIRE(written(Aggregation::sum) == 4.0f);
  REQUIRE(written(Aggregation::mean) == 2.5f);
  REQUIRE(written(Aggregation::only_first_replica) == 2.0f);
  REQUIRE_THROWS_MATCHES(written(Aggregation::none), InvalidArgument, says("'v'", "aggregation is none"));
}

TEST_CASE("central storage: reads after writes see them, run after run", "[strategy][central]") {
  CentralStorageStrategy strategy(TestBackend::devices(2), "CPU:9");
  const auto scope = strategy.scope();
  Variable variable(Tensor::zeros({1000}), {.aggregation = Aggregation::mean});
  for (int step = 0; step < 20; ++step) {
    const auto seen = strategy.run([&] {
      variable.assign_add(Tensor::ones({1000}));
      return sum(variable.value());
    });
    REQUIRE(items<float>(seen) == std::vector<float>(2, 1000.0f * static_cast<float>(step + 1)));
  }
}

TEST_CASE("central storage: reduce_to and update on the parameter device", "[strategy][central]") {
  CentralStorageStrategy strategy(TestBackend::devices(2), "CPU:9");
  const auto scope = strategy.scope();
  auto& x = strategy.extended();
  const Variable variable(Tensor::scalar(10.0f), {.name = "w"});
  const auto total = x.reduce_to(ReduceOp::sum, scalars<float>({1, 2}), variable);
  REQUIRE(total.size() == 1);
  REQUIRE(total[0].device() == Device("CPU:9"));
  int calls = 0;
  x.update(
      variable,
      [&](Tensor& local, const Tensor& g) {
        ++calls;
        REQUIRE(current_device() == Device("CPU:9"));
        local.sub_(g);
      },
      total);
  REQUIRE(calls == 1);
  REQUIRE(variable.value().item<float>() == 7.0f);
  REQUIRE_THROWS_MATCHES(x.update(
                             variable, [](Tensor&, const Tensor&) {}, scalars<float>({1, 2})),
                         InvalidArgument, says("per-replica value"));
  // Mirrored components are equal, so that any of them stands for all.
  x.update(
      variable, [](Tensor& local, const Tensor& g) { local.add_(g.to(local.device())); },
      x.broadcast_to(Tensor::scalar(1.0f)));
  REQUIRE(strategy.reduce(ReduceOp::mean, variable).item<float>() == 8.0f);
  REQUIRE(Variable(variable).assign(x.broadcast_to(Tensor::scalar(5.0f))).value().item<float>() == 5.0f);
}

TEST_CASE("central storage: variables made in replica functions, and slots", "[strategy][central]") {
  CentralStorageStrategy strategy(TestBackend::devices(2), "CPU:9");
  const Variable variable = strategy.run([] { return Variable(Tensor::scalar(2.0f), {.name = "w"}); });
  REQUIRE(Destination(variable).devices() == std::vector<Device>{"CPU:9"});
  const auto scope = strategy.scope();
  const auto place = strategy.extended().colocate_vars_with(variable);
  REQUIRE(Destination(Variable(Tensor::scalar(0.0f))).devices() == std::vector<Device>{"CPU:9"});
}

TEST_CASE("central storage: default devices", "[strategy][central]") {
  CentralStorageStrategy strategy;
  REQUIRE(strategy.extended().parameter_devices().size() == 1);
  MirroredStrategy mirrored;
  REQUIRE(strategy.extended().worker_devices() == mirrored.extended().worker_devices());
  CentralStorageStrategy two(TestBackend::devices(2));
  REQUIRE(two.extended().parameter_devices() == std::vector<Device>{"CPU:0"});
  REQUIRE_THROWS_AS(CentralStorageStrategy({TestBackend::device(), TestBackend::device()}, "CPU:0"),
                    InvalidArgument);
  REQUIRE_THROWS_AS(CentralStorageStrategy(TestBackend::devices(1), "/job:worker/task:3/CPU:0"),
                    ContextError);
}

}  // namespace lockstep::test
