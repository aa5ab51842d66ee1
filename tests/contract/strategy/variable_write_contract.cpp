#include <optional>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Writes of variables outside replica functions.
namespace lockstep::test {

using enum VariableAggregation;

namespace {

std::vector<float> components(const Variable& variable) {
  return items<float>(variable.strategy().local_results(variable));
}

}  // namespace

TEST_CASE("mirrored-cross-replica: writes reach every component", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable one(Tensor::scalar(1.0f));
  REQUIRE(one.assign_add(6.0f).value().item<float>() == 7.0f);
  REQUIRE(components(one) == std::vector<float>{7, 7});
  one.assign_add(2.0f);
  REQUIRE(components(one) == std::vector<float>{9, 9});
  Variable five(Tensor::scalar(5.0f));
  REQUIRE(five.assign_sub(2.0f).value().item<float>() == 3.0f);
  REQUIRE(components(five) == std::vector<float>{3, 3});
}

TEST_CASE("writes take tensors, host scalars and mirrored values, in and out of scope",
          "[strategy][variable]") {
  Replicas strategy(2);
  const bool in_scope = GENERATE(true, false);
  std::optional<Variable> variable;
  {
    const auto scope = strategy.scope();
    variable.emplace(Tensor::from<float>({1, 2}, {2}));
  }
  std::optional<StrategyScope> scope;
  if (in_scope) scope.emplace(strategy);
  const auto all = [&] {
    const auto parts = strategy.local_results(*variable);
    REQUIRE(parts[0].to_vector<float>() == parts[1].to_vector<float>());
    return parts[1].to_vector<float>();
  };
  variable->assign(Tensor::from<float>({3, 4}, {2}));
  REQUIRE(all() == std::vector<float>{3, 4});
  variable->assign(5.0);
  REQUIRE(all() == std::vector<float>{5, 5});
  variable->assign_add(Tensor::from<float>({1, 2}, {2}, TestBackend::device(1)));
  REQUIRE(all() == std::vector<float>{6, 7});
  variable->assign_sub(1);  // takes the variable's dtype
  REQUIRE(all() == std::vector<float>{5, 6});
  const Mirrored parts(std::vector{Tensor::from<float>({1, 1}, {2}, TestBackend::device(0)),
                                   Tensor::from<float>({1, 1}, {2}, TestBackend::device(1))});
  variable->assign_add(parts);
  REQUIRE(all() == std::vector<float>{6, 7});
  variable->assign(Mirrored(std::vector{Tensor::from<float>({8, 9}, {2})}));
  REQUIRE(all() == std::vector<float>{8, 9});
  variable->assign(
      PerReplica(std::vector{Tensor::from<float>({1, 2}, {2})}));  // one component is a plain value
  REQUIRE(all() == std::vector<float>{1, 2});
}

TEST_CASE("a write of a mirrored value goes component by component", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(0.0f));
  variable.assign(Mirrored(std::vector{Tensor::scalar(1.0f), Tensor::scalar(2.0f)}));
  REQUIRE(components(variable) == std::vector<float>{1, 2});
}

TEST_CASE("writes that do not fit are refused and change nothing", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::from<float>({1, 2}, {2}), {.name = "w"});
  const auto per_replica = vectors<float>({{1, 2}, {3, 4}});
  REQUIRE_THROWS_MATCHES(variable.assign(per_replica), InvalidArgument,
                         says("assign of the variable 'w'", "per-replica, with 2 components", "reduce_to"));
  REQUIRE_THROWS_MATCHES(variable.assign_add(per_replica), InvalidArgument,
                         says("assign_add of the variable 'w'"));
  REQUIRE_THROWS_MATCHES(variable.assign_sub(per_replica), InvalidArgument,
                         says("assign_sub of the variable 'w'"));
  REQUIRE_THROWS_MATCHES(variable.assign(Tensor::zeros({3})), InvalidArgument,
                         says("'w'", "[3] float32", "[2] float32", "Reshape or cast"));
  REQUIRE_THROWS_MATCHES(variable.assign_add(Tensor::zeros({2}, DType::f64)), InvalidArgument,
                         says("[2] float64", "[2] float32"));
  REQUIRE_THROWS_MATCHES(variable.assign_sub(Tensor::scalar(1.0f)), InvalidArgument, says("[] float32"));
  REQUIRE_THROWS_MATCHES(variable.assign(Mirrored(std::vector{Tensor::zeros({2}), Tensor::zeros({3})})),
                         InvalidArgument, says("[3] float32"));
  REQUIRE_THROWS_MATCHES(variable.assign(Mirrored(std::vector(3, Tensor::zeros({2})))), InvalidArgument,
                         says("the mirrored value has 3 components, the variable 2"));
  for (const Tensor& part : strategy.local_results(variable))
    REQUIRE(part.to_vector<float>() == std::vector<float>{1, 2});
}

TEST_CASE("writes of many bytes reach every component, wherever they are made", "[strategy][variable]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  const std::int64_t size = 100'000;  // the replicas' threads write
  Replicas strategy(n);
  Variable variable =
      strategy.make_variable(Tensor::zeros({size}), {.aggregation = VariableAggregation::sum});
  const Variable other = strategy.make_variable(Tensor::scalar(0.0f));
  const auto has = [&](float expected) {
    bool all = true;
    for (const Tensor& component : strategy.local_results(variable))
      all =
          all && component.to_vector<float>() == std::vector<float>(static_cast<std::size_t>(size), expected);
    return all;
  };
  const auto value = [&](float x) { return Tensor::full({size}, x); };
  variable.assign(3.0f);
  REQUIRE(has(3));
  variable.assign_add(value(1));
  REQUIRE(has(4));
  const auto snapshots = strategy.local_results(variable);
  variable.assign(strategy.extended().broadcast_to(value(6)));
  REQUIRE(has(6));
  REQUIRE(snapshots[0].to_vector<float>()[0] == 4.0f);
  strategy.run([&] { variable.assign_sub(value(1)); });
  REQUIRE(has(6.0f - static_cast<float>(n)));
  strategy.run([&](ReplicaContext& ctx) { ctx.merge_call([&](Strategy&) { variable.assign(2.0f); }); });
  REQUIRE(has(2));
  strategy.extended().update(other, [&](Tensor&) {
    const auto scope = strategy.scope();
    variable.assign_add(1.0f);
  });
  REQUIRE(has(2.0f + static_cast<float>(n)));
}

TEST_CASE("a host scalar that does not fit the variable is refused and changes nothing",
          "[strategy][variable]") {
  Replicas strategy(2);
  Variable bytes = strategy.make_variable(Tensor::full({2}, std::uint8_t{1}), {.name = "b"});
  Variable count = strategy.make_variable(Tensor::scalar(std::int32_t{1}), {.name = "n"});
  REQUIRE_THROWS_MATCHES(
      bytes.assign(300), InvalidArgument,
      says("assign of the variable 'b': the number 300 does not fit [2] uint8", "Pass one that the dtype"));
  REQUIRE_THROWS_MATCHES(bytes.assign_sub(-1), InvalidArgument, says("assign_sub of", "the number -1"));
  REQUIRE_THROWS_MATCHES(count.assign(2.7), InvalidArgument, says("the number 2.7 does not fit [] int32"));
  REQUIRE_THROWS_MATCHES(count.assign_add(std::int64_t{1} << 40), InvalidArgument,
                         says("the number 1099511627776 does not fit"));
  for (const Tensor& part : strategy.local_results(bytes))
    REQUIRE(part.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{1, 1});
  REQUIRE(items<std::int32_t>(strategy.local_results(count)) == std::vector<std::int32_t>{1, 1});
  count.assign(3.0);
  REQUIRE(count.value().item<std::int32_t>() == 3);
}

TEST_CASE("a variable can be written with its own value", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::from<float>({1, 2}, {2}));
  variable.assign(variable.value());
  variable.assign_add(variable);
  REQUIRE(strategy.local_results(variable)[1].to_vector<float>() == std::vector<float>{2, 4});
  variable.assign(variable.value() * 3);
  variable.assign_sub(variable.value());
  for (const Tensor& part : strategy.local_results(variable))
    REQUIRE(part.to_vector<float>() == std::vector<float>{0, 0});
}

}  // namespace lockstep::test
