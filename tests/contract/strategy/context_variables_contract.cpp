#include <functional>
#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Variables in and out of scopes.
namespace lockstep::test {

namespace {

/// The ways to read a variable as a strategy's value.
std::vector<std::function<void()>> reads_by(Strategy& strategy, const Variable& variable) {
  return {
      [&] { static_cast<void>(strategy.local_results(variable)); },
      [&] { static_cast<void>(strategy.reduce(ReduceOp::mean, variable)); },
      [&] { static_cast<void>(strategy.gather(variable, 0)); },
      [&] { static_cast<void>(strategy.num_rows(variable)); },
      [&] { static_cast<void>(strategy.extended().reduce_to(ReduceOp::mean, variable, Device("CPU:0"))); },
      [&] { static_cast<void>(ReduceValue(variable)); }};
}

}  // namespace

TEST_CASE("a variable in a strategy's scope inside the default strategy's is refused",
          "[strategy][context]") {
  Replicas strategy(2);
  const auto outer = get_strategy().scope();
  const Variable fine(Tensor::scalar(1.0f));
  const auto scope = strategy.scope();
  REQUIRE_THROWS_MATCHES(Variable(Tensor::scalar(1.0f), {.name = "w"}), ContextError,
                         says("'w'", "MirroredStrategy", "default strategy's scope"));
}

TEST_CASE("another strategy's variable is read in no scope, by whatever reads it", "[strategy][context]") {
  const auto mixed =
      says("reading the variable 'w' of MirroredStrategy", "inside the scope of another", "leave that scope");
  Replicas strategy(2), other(2);
  const auto variable = strategy.make_variable(Tensor::zeros({2}), {.name = "w"});
  const auto total =
      strategy.make_variable(Tensor::zeros({2}), {.name = "w",
                                                  .synchronization = VariableSynchronization::on_read,
                                                  .aggregation = VariableAggregation::sum});
  for (const Variable& each : {variable, total}) {
    for (const auto& read : reads_by(strategy, each)) read();
    const auto scope = other.scope();
    for (const auto& read : reads_by(other, each)) REQUIRE_THROWS_MATCHES(read(), ContextError, mixed);
  }
  REQUIRE_THROWS_MATCHES(other.run([&](ReplicaContext& ctx) {
    ctx.merge_call([&](Strategy& s) { static_cast<void>(s.local_results(total)); });
  }),
                         ContextError, mixed);
}

TEST_CASE("a variable whose strategy is destroyed says so", "[strategy][context]") {
  const auto destroyed = says("Variable 'w'", "has been destroyed", "Keep a strategy");
  std::optional<Replicas> strategy(std::in_place, 2);
  auto variable = strategy->make_variable(Tensor::zeros({2}), {.name = "w"});
  auto total =
      strategy->make_variable(Tensor::zeros({2}), {.name = "w",
                                                   .synchronization = VariableSynchronization::on_read,
                                                   .aggregation = VariableAggregation::sum});
  strategy.reset();
  Replicas other(2);
  for (Variable each : {variable, total}) {
    REQUIRE_THROWS_MATCHES(each.value(), ContextError, destroyed);
    REQUIRE_THROWS_MATCHES(each.assign(1.0f), ContextError, destroyed);
    REQUIRE_THROWS_MATCHES(each.strategy(), ContextError, destroyed);
    REQUIRE_THROWS_MATCHES(other.run([&] { each.value(); }), ContextError, destroyed);
    for (const auto& read : reads_by(other, each)) REQUIRE_THROWS_MATCHES(read(), ContextError, destroyed);
    REQUIRE(!other.extended().variable_created_in_scope(each));
    REQUIRE(each.name() == "w");
  }
  const IndexedSlices rows{Tensor::ones({1}), Tensor::zeros({1}, DType::i64), {2}};
  REQUIRE_THROWS_MATCHES(variable.scatter_add(rows), ContextError, destroyed);
}

TEST_CASE("variables are used outside every scope, and not inside another strategy's",
          "[strategy][context]") {
  Replicas s(2), s2(1);
  std::optional<Variable> variable;
  {
    const auto scope = s.scope();
    variable.emplace(Tensor::scalar(1.0f), VariableOptions{.name = "v"});
  }
  variable->assign_add(2.0f);
  REQUIRE(variable->value().item<float>() == 3.0f);
  REQUIRE(items<float>(s.local_results(*variable)) == std::vector<float>{3, 3});
  const auto in_a_run = says(
      "of the variable 'v' of MirroredStrategy in the function of replica 0 of a run of "
      "another strategy, MirroredStrategy",
      "cannot be mixed: use in a run what its own strategy has made");
  REQUIRE_THROWS_MATCHES(s2.run([&] { variable->assign_add(1.0f); }), ContextError, in_a_run);
  REQUIRE_THROWS_MATCHES(s2.run([&] { return variable->value(); }), ContextError,
                         says("reading the variable 'v' of MirroredStrategy in the function of replica 0"));
  REQUIRE_THROWS_MATCHES(s2.run([&] { s.run([] {}); }), ContextError,
                         says("run of MirroredStrategy in the function of replica 0 of a run of another"));
  const auto scope = s2.scope();
  REQUIRE_THROWS_MATCHES(variable->value(), ContextError,
                         says("reading the variable 'v'", "another strategy", "cannot be mixed"));
  REQUIRE_THROWS_MATCHES(variable->assign(1.0f), ContextError,
                         says("assign of the variable 'v' of MirroredStrategy", "another strategy"));
  REQUIRE_THROWS_MATCHES(s2.run([&] { variable->assign(1.0f); }), ContextError,
                         says("assign of the variable 'v' of MirroredStrategy", "another strategy"));
}

TEST_CASE("a variable made outside every scope is read everywhere, and written but in replicas",
          "[strategy][context]") {
  Replicas s(2);
  Variable plain(Tensor::zeros({2}), {.name = "p"});
  const Variable of_s = s.make_variable(Tensor::scalar(1.0f));
  const IndexedSlices rows{Tensor::ones({1}), Tensor::from<std::int64_t>({1}, {1}), {2}};
  const auto values = [&] { return plain.value().to_vector<float>(); };
  {
    const auto scope = s.scope();
    plain.assign(Tensor::ones({2}));
    plain.scatter_add(rows);
    REQUIRE(values() == std::vector<float>{1, 2});
  }
  s.run([&] { get_replica_context()->merge_call([&](Strategy&) { plain.assign_add(1.0f); }); });
  s.extended().update(of_s, [&](Tensor&) { plain.assign_add(1.0f); });  // of both components
  REQUIRE(values() == std::vector<float>{4, 5});
  const auto races = says("'p'", "replica", "made outside every scope", "race", "outside run");
  REQUIRE_THROWS_MATCHES(s.run([&] { plain.assign_add(1.0f); }), ContextError, races);
  REQUIRE_THROWS_MATCHES(s.run([&] { plain.scatter_add(rows); }), ContextError, races);
  REQUIRE(values() == std::vector<float>{4, 5});
  // A replica's read is its own, on its device: it counts once for each of them.
  const auto read = s.run([&] { return plain.value(); });
  REQUIRE(read[1].device() == TestBackend::device(1));
  REQUIRE(s.reduce(ReduceOp::sum, read).to_vector<float>() == std::vector<float>{8, 10});
}

}  // namespace lockstep::test
