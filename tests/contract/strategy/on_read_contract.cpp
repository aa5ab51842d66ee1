#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// on_read variables.
namespace lockstep::test {

using Aggregation = VariableAggregation;

namespace {

constexpr auto kOnRead = VariableSynchronization::on_read;

Variable on_read(Aggregation aggregation, float initial) {
  return Variable(Tensor::scalar(initial),
                  {.name = "v", .synchronization = kOnRead, .aggregation = aggregation});
}

std::vector<float> components(const Variable& variable) {
  return items<float>(variable.strategy().local_results(variable));
}

Tensor id_tensor(const ReplicaContext& ctx) {
  return Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group()));
}

}  // namespace

TEST_CASE("an on_read variable is not trainable unless asked for", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable = on_read(Aggregation::sum, 1);
  REQUIRE_FALSE(variable.trainable());
  REQUIRE(variable.synchronization() == kOnRead);
  REQUIRE(Variable(Tensor::scalar(1.0f), {.trainable = true, .synchronization = kOnRead}).trainable());
}

TEST_CASE("on-read-sum-assign: a sum is read, and assign shares the value out", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = on_read(Aggregation::sum, 1);
  REQUIRE(variable.value().item<float>() == 2.0f);
  variable.assign(6.0f);
  REQUIRE(components(variable) == std::vector<float>{3, 3});
  REQUIRE(variable.value().item<float>() == 6.0f);
  variable.assign(Tensor::scalar(8.0f));
  REQUIRE(components(variable) == std::vector<float>{4, 4});
  variable.assign(strategy.extended().broadcast_to(Tensor::scalar(2.0f)));
  REQUIRE(components(variable) == std::vector<float>{1, 1});
}

TEST_CASE("on-read-mean-assign: a mean is read, and assign gives it to every component",
          "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = on_read(Aggregation::mean, 1);
  REQUIRE(variable.value().item<float>() == 1.0f);
  variable.assign(6.0f);
  REQUIRE(variable.value().item<float>() == 6.0f);
  REQUIRE(components(variable) == std::vector<float>{6, 6});
}

TEST_CASE("on-read-replica-assign: components are combined when they are read", "[strategy][variable]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  const auto read = [&](Aggregation aggregation) {
    Variable variable = on_read(aggregation, 7);
    strategy.run([&](ReplicaContext& ctx) { variable.assign(id_tensor(ctx)); });
    return variable.value().item<float>();
  };
  const auto last = static_cast<float>(n - 1);
  REQUIRE(read(Aggregation::sum) == last * static_cast<float>(n) / 2);
  REQUIRE(read(Aggregation::mean) == last / 2);
  REQUIRE(read(Aggregation::only_first_replica) == 0.0f);
}

TEST_CASE("on-read-none: components stay apart", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = on_read(Aggregation::none, 1);
  const auto own = strategy.run([&](ReplicaContext& ctx) {
    variable.assign_add(id_tensor(ctx));
    return variable.value();
  });
  REQUIRE(items<float>(own) == std::vector<float>{1, 2});
  REQUIRE_THROWS_MATCHES(variable.value(), InvalidArgument,
                         says("reading the variable 'v'", "on_read with aggregation none", "local_results"));
  REQUIRE_THROWS_MATCHES(strategy.extended().read_var(variable), InvalidArgument, says("'v'"));
  variable.assign(5.0f);
  REQUIRE(components(variable) == std::vector<float>{5, 5});
  variable.assign_add(1.0f);
  variable.assign_sub(Tensor::scalar(3.0f));
  REQUIRE(components(variable) == std::vector<float>{3, 3});
}

TEST_CASE("on-read-accumulate: replicas add to their own components", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable v_sum = on_read(Aggregation::sum, 1);
  Variable v_mean = on_read(Aggregation::mean, 4);
  const auto [same_sum, same_mean] = strategy.run([&](ReplicaContext& ctx) {
    v_sum.assign_add(id_tensor(ctx) + 2.0f);
    v_mean.assign(id_tensor(ctx) * 6.0f);
    return std::tuple{v_sum, v_mean};
  });
  REQUIRE(same_sum == v_sum);
  REQUIRE(same_mean == v_mean);
  REQUIRE(components(v_sum) == std::vector<float>{3, 4});
  REQUIRE(v_sum.value().item<float>() == 7.0f);
  REQUIRE(components(v_mean) == std::vector<float>{0, 6});
  REQUIRE(strategy.extended().read_var(v_mean).item<float>() == 3.0f);
}

TEST_CASE("on-read-update-unsplit: an update sees and writes single components", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = on_read(Aggregation::sum, 1);
  strategy.extended().update(variable, [](Tensor& local) { local.fill_(5.0f); });
  REQUIRE(components(variable) == std::vector<float>{5, 5});
  REQUIRE(variable.value().item<float>() == 10.0f);
  std::vector<float> seen;
  strategy.extended().update(variable, [&](Tensor&) {
    variable.assign_add(static_cast<float>(get_update_replica_id().value()));
    seen.push_back(variable.value().item<float>());
  });
  REQUIRE(seen == std::vector<float>{5, 6});
  REQUIRE(components(variable) == std::vector<float>{5, 6});
}

TEST_CASE("what may be added to an on_read variable outside its replicas", "[strategy][variable]") {
  Replicas strategy(2);
  Variable v_sum = [&] {
    const auto scope = strategy.scope();
    return on_read(Aggregation::sum, 1);
  }();
  const bool in_scope = GENERATE(false, true);
  std::optional<StrategyScope> scope;
  if (in_scope) scope.emplace(strategy);
  REQUIRE_THROWS_MATCHES(
      v_sum.assign_add(1.0f), InvalidArgument,
      says("assign_add of the variable 'v'", "on_read with aggregation sum", "Use assign"));
  REQUIRE_THROWS_MATCHES(v_sum.assign_sub(Tensor::scalar(1.0f)), InvalidArgument, says("assign_sub"));
  REQUIRE_THROWS_MATCHES(v_sum.assign(scalars<float>({1, 2})), InvalidArgument, says("per-replica"));
  REQUIRE(components(v_sum) == std::vector<float>{1, 1});
  REQUIRE(v_sum.value().item<float>() == 2.0f);
  if (!in_scope) return;
  for (const Aggregation aggregation : {Aggregation::mean, Aggregation::only_first_replica}) {
    Variable variable = on_read(aggregation, 4);
    variable.assign_add(2.0f);
    variable.assign_sub(Tensor::scalar(1.0f));
    REQUIRE(components(variable) == std::vector<float>{5, 5});
    REQUIRE(variable.value().item<float>() == 5.0f);
  }
}

TEST_CASE("P12 writes in replicas are local: a replica may make them alone", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Aggregation aggregation = GENERATE(Aggregation::none, Aggregation::sum, Aggregation::mean);
  Variable variable = on_read(aggregation, 1);
  strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 1) variable.assign_add(5.0f).assign_sub(1.0f);
  });
  REQUIRE(components(variable) == std::vector<float>{1, 5});
}

TEMPLATE_TEST_CASE("P14 D1 a summed integer reads as what was assigned", "[strategy][variable]", std::int8_t,
                   std::int32_t, std::int64_t, std::uint8_t, std::uint64_t) {
  using T = TestType;
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(T{0}), {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  for (const T value : {T{0}, T{7}, T{8}, std::numeric_limits<T>::max(), std::numeric_limits<T>::min()}) {
    variable.assign(Tensor::scalar(value));
    REQUIRE(variable.value().item<T>() == value);
    if (value != T{7} && value != T{8}) continue;
    const auto parts = items<T>(strategy.local_results(variable));
    const int total = static_cast<int>(value);
    for (int i = 0; i < n; ++i)
      REQUIRE(static_cast<int>(parts[static_cast<std::size_t>(i)]) == total / n + (i < total % n ? 1 : 0));
  }
  variable.assign(7);
  REQUIRE(variable.value().item<T>() == 7);
}

TEST_CASE("D1 negative integers are shared out towards zero", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::from<std::int32_t>({-7, 7, -1}, {3}),
                    {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  variable.assign(Tensor::from<std::int32_t>({-7, 7, -1}, {3}));
  const auto parts = strategy.local_results(variable);
  REQUIRE(parts[0].to_vector<std::int32_t>() == std::vector<std::int32_t>{-4, 4, -1});
  REQUIRE(parts[1].to_vector<std::int32_t>() == std::vector<std::int32_t>{-3, 3, 0});
}

TEMPLATE_TEST_CASE("P14 a summed floating number reads as what was assigned", "[strategy][variable]", float,
                   double, f16, bf16, f8e4m3, f8e5m2) {
  using T = TestType;
  const DType dtype = dtype_of<T>;
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  Variable variable = strategy.make_variable(Tensor::zeros({}, dtype),
                                             {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  std::vector<double> values;
  for (int i = 0; i < 64; ++i) values.push_back(i);
  for (const double value : {0.1, -3.3, 1e-7, static_cast<double>(std::numeric_limits<T>::max()),
                             static_cast<double>(std::numeric_limits<T>::lowest()),
                             static_cast<double>(std::numeric_limits<T>::denorm_min())})
    values.push_back(value);
  for (const double value : values) {
    const Tensor written = Tensor::scalar(value).cast(dtype);
    variable.assign(written);
    REQUIRE(variable.value().cast(DType::f64).template item<double>() ==
            written.cast(DType::f64).template item<double>());
  }
}

TEST_CASE("P14 infinite sums, and those that are none, read as they were assigned", "[strategy][variable]") {
  Replicas strategy(3);
  Variable variable = strategy.make_variable(Tensor::zeros({3}),
                                             {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  const float infinity = std::numeric_limits<float>::infinity();
  variable.assign(Tensor::from<float>({infinity, -infinity, std::nanf("")}, {3}));
  const auto values = variable.value().to_vector<float>();
  REQUIRE(values[0] == infinity);
  REQUIRE(values[1] == -infinity);
  REQUIRE(std::isnan(values[2]));
}

TEMPLATE_TEST_CASE("P14 a summed negative zero reads as one", "[strategy][variable]", float, double, f16,
                   bf16, f8e4m3, f8e5m2) {
  const DType dtype = dtype_of<TestType>;
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  Variable variable = strategy.make_variable(Tensor::zeros({2}, dtype),
                                             {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  variable.assign(Tensor::from<double>({-0.0, 0.0}, {2}).cast(dtype));
  const auto read = variable.value().cast(DType::f64).template to_vector<double>();
  REQUIRE(read == std::vector<double>{0, 0});
  REQUIRE(std::signbit(read[0]));
  REQUIRE_FALSE(std::signbit(read[1]));
}

TEST_CASE("a mean's components are what was assigned, whatever their mean rounds to",
          "[strategy][variable]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  Variable variable = strategy.make_variable(Tensor::zeros({}, DType::f64),
                                             {.synchronization = kOnRead, .aggregation = Aggregation::mean});
  variable.assign(0.1);
  REQUIRE(items<double>(strategy.local_results(variable)) ==
          std::vector<double>(static_cast<std::size_t>(n), 0.1));
  // A sum of n terms rounds n - 1 times, and the division once.
  const double tolerance = n * std::numeric_limits<double>::epsilon();
  REQUIRE(std::abs(variable.value().item<double>() - 0.1) <= 0.1 * tolerance);
}

TEST_CASE("sync_on_read: replicas read what is read outside", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = on_read(Aggregation::sum, 1);
  const auto [plain, aggregated] = strategy.run([&] {
    const Tensor own = variable.value() + 10.0f;
    const sync_on_read guard;
    return std::tuple{own, variable.value() + 10.0f};
  });
  REQUIRE(items<float>(plain) == std::vector<float>{11, 11});
  REQUIRE(items<float>(aggregated) == std::vector<float>{12, 12});

  const auto read = [&](Aggregation aggregation) {
    Variable ids = on_read(aggregation, 0);
    return strategy.run([&](ReplicaContext& ctx) {
      ids.assign(id_tensor(ctx) + 1.0f);
      const auto guard = sync_on_read();
      return ids.value();
    });
  };
  REQUIRE(items<float>(read(Aggregation::mean)) == std::vector<float>{1.5f, 1.5f});
  const auto first = read(Aggregation::only_first_replica);
  REQUIRE(items<float>(first) == std::vector<float>{1, 1});
  REQUIRE(first[1].device() == TestBackend::device(1));
  REQUIRE_THROWS_MATCHES(read(Aggregation::none), InvalidArgument, says("'v'", "aggregation none"));
  // It ends with its block, and concerns on_read variables alone.
  REQUIRE_FALSE(sync_on_read::is_active());
  const Variable mirrored(Tensor::scalar(3.0f), {.aggregation = Aggregation::sum});
  const auto same = strategy.run([&] {
    const sync_on_read guard;
    return mirrored.value();
  });
  REQUIRE(items<float>(same) == std::vector<float>{3, 3});
}

TEST_CASE("an on_read variable takes part in reductions with its components", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = on_read(Aggregation::mean, 0);
  strategy.run([&](ReplicaContext& ctx) { variable.assign(id_tensor(ctx) + 1.0f); });
  REQUIRE(strategy.reduce(ReduceOp::sum, variable).item<float>() == 3.0f);
  const auto sums =
      strategy.run([&](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, variable); });
  REQUIRE(items<float>(sums) == std::vector<float>{3, 3});
}

TEST_CASE("an aggregate that is read is nobody's component", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable = on_read(Aggregation::only_first_replica, 3);
  Tensor value = variable.value();
  REQUIRE(value.device() == TestBackend::device(0));
  REQUIRE_THROWS_AS(value.fill_(0), InvalidArgument);
  variable.assign(4.0f);
  REQUIRE(value.item<float>() == 3.0f);
}

TEST_CASE("on_read with one replica, and outside every strategy", "[strategy][variable]") {
  const Aggregation aggregation =
      GENERATE(Aggregation::none, Aggregation::sum, Aggregation::mean, Aggregation::only_first_replica);
  const auto use = [&](Strategy& strategy, Variable& variable) {
    strategy.run([&] { variable.assign_add(2.0f); });
    variable.assign_add(1.0f);
    variable.assign_sub(Tensor::scalar(0.5f));
    return variable.value().item<float>();
  };
  OneDeviceStrategy one(TestBackend::device());
  {
    const auto scope = one.scope();
    Variable variable = on_read(aggregation, 1);
    REQUIRE(use(one, variable) == 3.5f);
  }
  Variable outside = on_read(aggregation, 1);
  REQUIRE(use(get_strategy(), outside) == 3.5f);
}

TEST_CASE("a synchronised read meets reads of the same variable only", "[strategy][variable]") {
  const Aggregation aggregation =
      GENERATE(Aggregation::sum, Aggregation::mean, Aggregation::only_first_replica);
  Replicas strategy(2);
  const VariableOptions options{.name = "a", .synchronization = kOnRead, .aggregation = aggregation};
  const auto a = strategy.make_variable(Tensor::scalar(1.0f), options);
  VariableOptions others = options;
  others.name = "b";
  const auto b = strategy.make_variable(Tensor::scalar(100.0f), others);
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    const sync_on_read guard;
    return (ctx.replica_id_in_sync_group() == 0 ? a : b).value();
  }),
                         CollectiveMismatch,
                         says("a sync-on-read", "replica 1 names the variable 'b'", "replica 0 names 'a'"));
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    const sync_on_read guard;
    return ctx.replica_id_in_sync_group() == 0 ? a.value()
                                               : ctx.all_reduce(ReduceOp::sum, Tensor::scalar(7.0f));
  }),
                         CollectiveMismatch, says("replica 1", "all_reduce(sum)", "a sync-on-read"));
}

TEST_CASE("a sync_on_read guard around run counts on every replica", "[strategy][variable]") {
  const int n = GENERATE(1, 2, 3);
  Replicas strategy(n);
  const auto variable = strategy.make_variable(Tensor::scalar(1.0f),
                                               {.synchronization = kOnRead, .aggregation = Aggregation::sum});
  const auto read = [&] { return variable.value(); };
  {
    const sync_on_read guard;
    REQUIRE(items<float>(strategy.run(read)) ==
            std::vector<float>(static_cast<std::size_t>(n), static_cast<float>(n)));
  }
  REQUIRE(items<float>(strategy.run(read)) == std::vector<float>(static_cast<std::size_t>(n), 1.0f));
}

}  // namespace lockstep::test
