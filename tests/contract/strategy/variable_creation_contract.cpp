#include <atomic>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Variables made in replica functions, and where variables are put.
namespace lockstep::test {

namespace {

Tensor id_tensor(const ReplicaContext& ctx) {
  return Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group()));
}

std::string name_by_replica(const ReplicaContext& ctx, const std::string& first, const std::string& others) {
  return ctx.replica_id_in_sync_group() == 0 ? first : others;
}

}  // namespace

TEST_CASE("variable-in-run: replicas get one variable, equal everywhere", "[strategy][variable]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const auto synchronization = GENERATE(VariableSynchronization::on_write, VariableSynchronization::on_read);
  Replicas strategy(n);
  std::atomic<int> calls{0};
  std::vector<std::optional<Variable>> made(static_cast<std::size_t>(n));
  const auto step = [&](ReplicaContext& ctx) {
    auto& mine = made[static_cast<std::size_t>(ctx.replica_id_in_sync_group())];
    if (!mine)  // on first use
      mine.emplace([&] { return Tensor::scalar(static_cast<float>(++calls)); },
                   VariableOptions{.name = "w", .synchronization = synchronization});
    return *mine;
  };
  const Variable variable = strategy.run(step);
  REQUIRE(strategy.run(step) == variable);
  REQUIRE(calls == 1);
  for (const auto& mine : made) REQUIRE(*mine == variable);
  REQUIRE(&variable.strategy() == &strategy);
  REQUIRE(strategy.extended().variable_created_in_scope(variable));
  const auto parts = strategy.local_results(variable);
  REQUIRE(items<float>(parts) == std::vector<float>(static_cast<std::size_t>(n), 1.0f));
  for (int i = 0; i < n; ++i) REQUIRE(parts[static_cast<std::size_t>(i)].device() == TestBackend::device(i));
}

TEST_CASE("only replica 0's initial value and options count", "[strategy][variable]") {
  Replicas strategy(2);
  const Variable variable = strategy.run([](ReplicaContext& ctx) {
    const bool first = ctx.replica_id_in_sync_group() == 0;
    return Variable(id_tensor(ctx) + 5.0f,
                    {.name = "w",
                     .trainable = first,
                     .aggregation = first ? VariableAggregation::mean : VariableAggregation::sum});
  });
  REQUIRE(items<float>(strategy.local_results(variable)) == std::vector<float>{5, 5});
  REQUIRE(variable.trainable());
  REQUIRE(variable.aggregation() == VariableAggregation::mean);
}

TEST_CASE("variable-names-in-run: names may differ in a trailing number", "[strategy][variable]") {
  Replicas strategy(2);
  const auto make = [&](const std::string& first, const std::string& others) {
    return strategy.run([&](ReplicaContext& ctx) {
      return Variable(Tensor::scalar(1.0f), {.name = name_by_replica(ctx, first, others)});
    });
  };
  REQUIRE(make("foo_0", "foo_1").name() == "foo_0");
  REQUIRE(make("net_1/foo_0", "net_2/foo").name() == "net_1/foo_0");
  REQUIRE_THROWS_MATCHES(make("foo", "bar"), ContextError,
                         says("Variable 'bar': replica 1 makes it where replica 0 makes 'foo'",
                              "mismatching variable creation"));
  REQUIRE_THROWS_AS(make("foo0", "foo1"), ContextError);
  REQUIRE_THROWS_AS(make("foo_a", "foo_b"), ContextError);
  REQUIRE_THROWS_AS(make("a/foo_1", "b/foo_1"), ContextError);
}

TEST_CASE("a variable that not every replica makes is refused", "[strategy][variable]") {
  Replicas strategy(2);
  for (const int maker : {0, 1}) {
    REQUIRE_THROWS_AS(strategy.run([&](ReplicaContext& ctx) {
      if (ctx.replica_id_in_sync_group() == maker) Variable(Tensor::scalar(1.0f));
    }),
                      ContextError);
  }
  REQUIRE_NOTHROW(strategy.run([] { Variable(Tensor::scalar(1.0f)); }));
}

TEST_CASE("D9 another shape or dtype than replica 0's is refused", "[strategy][variable]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    return Variable(Tensor::zeros({2 + ctx.replica_id_in_sync_group()}), {.name = "w"});
  }),
                         InvalidArgument, says("'w'", "replica 1", "[3] float32", "[2] float32"));
  REQUIRE_THROWS_MATCHES(strategy.run([](ReplicaContext& ctx) {
    return Variable(Tensor::zeros({2}, ctx.replica_id_in_sync_group() == 0 ? DType::f32 : DType::f64));
  }),
                         InvalidArgument, says("replica 1", "float64", "float32"));
}

TEST_CASE("P13 integer-mean: a variable whose aggregate is none of its dtype is refused",
          "[strategy][variable]") {
  using enum VariableSynchronization;
  Replicas strategy(GENERATE(1, 2));
  const auto attempt = [&](const Tensor& initial, VariableSynchronization synchronization,
                           VariableAggregation aggregation) {
    static_cast<void>(strategy.make_variable(
        initial, {.name = "n", .synchronization = synchronization, .aggregation = aggregation}));
  };
  for (const auto synchronization : {automatic, on_write, on_read}) {
    REQUIRE_THROWS_MATCHES(
        attempt(Tensor::zeros({2}, DType::i64), synchronization, VariableAggregation::mean), InvalidArgument,
        says("Variable 'n' with aggregation mean", "[2] int64", "Use a floating dtype, or another"));
    REQUIRE_THROWS_MATCHES(attempt(Tensor::scalar(true), synchronization, VariableAggregation::mean),
                           InvalidArgument, says("aggregation mean", "bool"));
  }
  REQUIRE_THROWS_MATCHES(attempt(Tensor::scalar(true), on_read, VariableAggregation::sum), InvalidArgument,
                         says("Variable 'n', on_read with aggregation sum", "bool", "Use numbers"));
  REQUIRE_THROWS_AS(Variable(Tensor::scalar(1), {.aggregation = VariableAggregation::mean}), InvalidArgument);
  attempt(Tensor::scalar(1), on_read, VariableAggregation::sum);
  attempt(Tensor::scalar(true), on_read, VariableAggregation::only_first_replica);
}

TEST_CASE("a variable made in a merge function is one distributed variable", "[strategy][variable]") {
  Replicas strategy(2);
  std::optional<Variable> made;
  strategy.run(
      [&](ReplicaContext& ctx) { ctx.merge_call([&](Strategy&) { made.emplace(Tensor::scalar(2.0f)); }); });
  REQUIRE(items<float>(strategy.local_results(*made)) == std::vector<float>{2, 2});
}

TEST_CASE("an initial value that throws reaches the caller of run", "[strategy][variable]") {
  Replicas strategy(2);
  REQUIRE_THROWS_MATCHES(
      strategy.run([] { return Variable([]() -> Tensor { throw std::runtime_error("no data"); }); }),
      std::runtime_error, says("no data"));
  REQUIRE_NOTHROW(strategy.run([] { return Variable(Tensor::scalar(1.0f)); }));
}

TEST_CASE("colocate_vars_with: exactly the devices of a variable", "[strategy][variable]") {
  Replicas strategy(3);
  auto& x = strategy.extended();
  std::optional<Variable> everywhere, on_first, on_one;
  {
    const auto scope = strategy.scope();
    everywhere.emplace(Tensor::scalar(1.0f));
    {
      const auto place = x.colocate_vars_with(NonSlot{TestBackend::devices(1), std::nullopt});
      on_first.emplace(Tensor::scalar(2.0f));
      {
        const auto inner = x.colocate_vars_with(NonSlot{{TestBackend::device(2)}, std::nullopt});
        on_one.emplace(Tensor::scalar(3.0f));
      }
      REQUIRE(strategy.local_results(Variable(Tensor::scalar(4.0f)))[0].device() == TestBackend::device(0));
      const auto back = x.colocate_vars_with(*everywhere);
      REQUIRE(Destination(Variable(Tensor::scalar(5.0f))).devices() == TestBackend::devices(3));
    }
    REQUIRE(Destination(Variable(Tensor::scalar(6.0f))).devices() == TestBackend::devices(3));
    const auto slot_place = x.colocate_vars_with(*on_first);
    REQUIRE(Destination(Variable(Tensor::scalar(7.0f))).devices() == TestBackend::devices(1));
  }
  REQUIRE(Destination(*on_first).devices() == TestBackend::devices(1));
  REQUIRE(Destination(*on_one).devices() == std::vector{TestBackend::device(2)});
  on_one->assign_add(1.0f);
  REQUIRE(on_one->value().item<float>() == 4.0f);
  REQUIRE(items<float>(strategy.run([&] { return on_one->value() + 1.0f; })) == std::vector<float>{5, 5, 5});
}

TEST_CASE("colocate_vars_with needs the strategy's scope, and a variable of it", "[strategy][variable]") {
  Replicas strategy(2);
  const Variable outside(Tensor::scalar(1.0f), {.name = "w"});
  const Variable own = [&] {
    const auto scope = strategy.scope();
    return Variable(Tensor::scalar(1.0f));
  }();
  auto& x = strategy.extended();
  REQUIRE_THROWS_MATCHES(x.colocate_vars_with(own), ContextError,
                         says("colocate_vars_with of MirroredStrategy", "outside its scope"));
  REQUIRE_THROWS_AS(x.colocate_vars_with(NonSlot{x.worker_devices(), std::nullopt}), ContextError);
  REQUIRE_THROWS_AS(strategy.run([&] { const auto guard = x.colocate_vars_with(own); }), ContextError);
  const auto scope = strategy.scope();
  REQUIRE_THROWS_MATCHES(x.colocate_vars_with(outside), InvalidArgument,
                         says("'w'", "the default strategy", "made in this strategy's scope"));
  const std::vector<Device> reversed = {TestBackend::device(1), TestBackend::device(0)};
  for (const std::vector<Device>& devices : {std::vector<Device>(), reversed})
    REQUIRE_THROWS_MATCHES(x.colocate_vars_with(NonSlot{devices, std::nullopt}), InvalidArgument,
                           says("colocate_vars_with", "neither all worker devices nor one"));
  REQUIRE_NOTHROW(x.colocate_vars_with(x.non_slot_devices({})));
}

}  // namespace lockstep::test
