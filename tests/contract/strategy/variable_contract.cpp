#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Variables outside replica functions.
namespace lockstep::test {

using enum VariableAggregation;

namespace {

std::vector<float> components(const Variable& variable) {
  return items<float>(variable.strategy().local_results(variable));
}

}  // namespace

TEST_CASE("a variable has a component on each device, equal to its initial value", "[strategy][variable]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  Tensor initial = Tensor::from<float>({1, 2}, {2});
  const Variable variable(initial, {.name = "w"});
  initial.fill_(0.0f);  // copied, not shared
  const auto parts = strategy.local_results(variable);
  REQUIRE(parts.size() == static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    REQUIRE(parts[static_cast<std::size_t>(i)].device() == TestBackend::device(i));
    REQUIRE(parts[static_cast<std::size_t>(i)].to_vector<float>() == std::vector<float>{1, 2});
  }
}

TEST_CASE("P11 an initial value is made once, on the first device, and copied bit for bit",
          "[strategy][variable]") {
  const int n = GENERATE_COPY(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  int calls = 0;
  const Variable variable([&] {
    ++calls;
    const Tensor made = Tensor::scalar(0.1f * static_cast<float>(calls));
    return made.device() == TestBackend::device(0) ? made : Tensor::scalar(-1.0f);
  });
  REQUIRE(calls == 1);
  REQUIRE(components(variable) == std::vector<float>(static_cast<std::size_t>(n), 0.1f));
}

TEST_CASE("a variable tells how it was made", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable plain(Tensor::zeros({2, 3}, DType::f16));
  REQUIRE(plain.name() == "Variable");
  REQUIRE(plain.trainable());
  REQUIRE(plain.synchronization() == VariableSynchronization::on_write);
  REQUIRE(plain.aggregation() == none);
  REQUIRE(plain.dtype() == DType::f16);
  REQUIRE(plain.shape() == Shape(2, 3));
  REQUIRE(&plain.strategy() == &strategy);
  const Variable named(Tensor::scalar(1),
                       {.name = "steps", .trainable = false, .aggregation = only_first_replica});
  REQUIRE(named.name() == "steps");
  REQUIRE_FALSE(named.trainable());
  REQUIRE(named.aggregation() == only_first_replica);
  std::ostringstream text;
  text << named.aggregation() << ' ' << named.synchronization() << ' ' << mean << ' ' << sum << ' ' << none
       << ' ' << VariableSynchronization::automatic << ' ' << VariableSynchronization::none << ' '
       << VariableSynchronization::on_read;
  REQUIRE(text.str() == "only_first_replica on_write mean sum none automatic none on_read");
}

TEST_CASE("variable-sync-none: refused, naming the variable", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  REQUIRE_THROWS_MATCHES(
      Variable(Tensor::scalar(1.0f), {.name = "v", .synchronization = VariableSynchronization::none}),
      InvalidArgument, says("'v'", "synchronization none", "on_write or on_read"));
}

TEST_CASE("a variable handle is a name for one variable", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable a(Tensor::scalar(1.0f)), other(Tensor::scalar(1.0f));
  Variable b = a;
  REQUIRE(a == b);
  REQUIRE_FALSE(a == other);
  b.assign(2.0f);
  REQUIRE(a.value().item<float>() == 2.0f);
}

TEST_CASE("a read is a snapshot that later writes do not change", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::from<float>({1, 2}, {2}));
  const Tensor before = variable.value();
  const Tensor part = before.slice(1, 2);
  const auto parts = strategy.local_results(variable);
  variable.assign_add(Tensor::from<float>({10, 10}, {2}));
  const Tensor between = variable.value();
  variable.assign(0.0f);
  variable.assign_sub(1.0f);
  strategy.extended().update(variable, [](Tensor& local) { local.add_(5.0f); });
  REQUIRE(before.to_vector<float>() == std::vector<float>{1, 2});
  REQUIRE(part.to_vector<float>() == std::vector<float>{2});
  REQUIRE(parts[1].to_vector<float>() == std::vector<float>{1, 2});
  REQUIRE(between.to_vector<float>() == std::vector<float>{11, 12});
  REQUIRE(variable.value().to_vector<float>() == std::vector<float>{4, 4});
}

TEST_CASE("what a variable gives is read-only", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::from<float>({1, 2}, {2}));
  std::vector<Tensor> given = strategy.local_results(variable);
  given.push_back(variable.value());
  given.push_back(variable);
  given.push_back(strategy.extended().read_var(variable));
  for (const Tensor& part : strategy.extended().reduce_to(ReduceOp::mean, variable, variable))
    given.push_back(part);
  for (const Tensor& part : strategy.run([&] { return variable.value(); })) given.push_back(part);
  for (Tensor& tensor : given)
    REQUIRE_THROWS_MATCHES(tensor.fill_(0), InvalidArgument,
                           says("fill_", "read-only", "a variable's value"));
  strategy.extended().update(variable, [&](Tensor& local) {
    Tensor value = variable.value();
    REQUIRE_THROWS_AS(value.fill_(0), InvalidArgument);
    local.add_(value);
  });
  REQUIRE(strategy.local_results(variable)[1].to_vector<float>() == std::vector<float>{2, 4});
  Tensor mine = variable.value().clone();
  mine.fill_(0);
  REQUIRE(variable.value().to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("a variable is read while another host thread's runs write it", "[strategy][variable][threads]") {
  Replicas strategy(2);
  Variable mirrored = strategy.make_variable(Tensor::zeros({3}), {.aggregation = sum});
  Variable on_read = strategy.make_variable(
      Tensor::zeros({3}), {.synchronization = VariableSynchronization::on_read, .aggregation = sum});
  constexpr int kRounds = 300;
  std::thread writer([&] {
    for (int round = 0; round < kRounds; ++round)
      strategy.run([&] {
        mirrored.assign_add(Tensor::ones({3}));
        on_read.assign_add(1.0f);
      });
  });
  bool whole = true;
  const auto look = [&](const Tensor& value, int step) {
    const auto elements = value.to_vector<float>();
    whole &= elements == std::vector<float>(3, elements[0]) && static_cast<int>(elements[0]) % step == 0;
  };
  for (int round = 0; round < kRounds; ++round) {
    look(mirrored.value(), 2);  // never one replica's part alone
    look(on_read.value(), 1);   // replicas write their components by themselves
    look(strategy.local_results(mirrored)[1], 2);
  }
  writer.join();
  REQUIRE(whole);
  REQUIRE(mirrored.value().to_vector<float>() == std::vector<float>(3, 2.0f * kRounds));
  REQUIRE(on_read.value().to_vector<float>() == std::vector<float>(3, 2.0f * kRounds));
}

TEST_CASE("a variable that was moved from says so", "[strategy][variable]") {
  Variable variable(Tensor::scalar(1.0f));
  const Variable taken = std::move(variable);
  REQUIRE_THROWS_MATCHES(variable.value(), ContextError, says("Variable: used after it was moved from"));
  REQUIRE_THROWS_AS(variable.name(), ContextError);
  REQUIRE_THROWS_AS(variable.assign(1.0f), ContextError);
  REQUIRE_THROWS_AS(get_strategy().local_results(variable), ContextError);
  REQUIRE(taken.value().item<float>() == 1.0f);
}

TEST_CASE("a read gives the component on the current device, else component 0", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(1.0f));
  REQUIRE(variable.value().device() == TestBackend::device(0));
  REQUIRE(strategy.extended().read_var(variable).device() == TestBackend::device(0));
  {
    const DeviceScope here(TestBackend::device(1));
    REQUIRE(variable.value().device() == TestBackend::device(1));
    REQUIRE(strategy.extended().read_var(variable).device() == TestBackend::device(1));
  }
  const auto devices =
      strategy.run([&](ReplicaContext& ctx) { return variable.value().device() == ctx.device(); });
  REQUIRE((devices[0] && devices[1]));
}

TEST_CASE("variable-created-in-scope: only a strategy's own variables", "[strategy][variable]") {
  Replicas strategy(2), other(1);
  const Variable outside(Tensor::scalar(1.0f));
  const auto scope = strategy.scope();
  const Variable inside(Tensor::scalar(1.0f));
  REQUIRE(strategy.extended().variable_created_in_scope(inside));
  REQUIRE_FALSE(strategy.extended().variable_created_in_scope(outside));
  REQUIRE_FALSE(other.extended().variable_created_in_scope(inside));
  StrategyExtended& standard = outside.strategy().extended();
  REQUIRE_FALSE(standard.variable_created_in_scope(inside));
  REQUIRE(standard.variable_created_in_scope(outside));
  const auto in_replica = strategy.run([&] { return strategy.extended().variable_created_in_scope(inside); });
  REQUIRE(in_replica[1]);
}

TEST_CASE("value-container: the variable that a component belongs to", "[strategy][variable]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  auto& x = strategy.extended();
  const Variable other(Tensor::scalar(1.0f));
  const Tensor plain = Tensor::scalar(1.0f);
  std::optional<Variable> variable(Tensor::scalar(1.0f));
  const Tensor component = strategy.local_results(*variable)[1];
  REQUIRE(std::get<Variable>(x.value_container(component)) == *variable);
  REQUIRE(x.value_container(*variable) == *variable);
  REQUIRE(std::get<Tensor>(x.value_container(plain)).is_same_object(plain));
  // In a replica too, where another thread holds the strategy's calls.
  const auto found =
      strategy.run([&] { return std::holds_alternative<Variable>(x.value_container(component)); });
  REQUIRE((found[0] && found[1]));
  variable.reset();
  REQUIRE(std::get<Tensor>(x.value_container(component)).is_same_object(component));
}

TEST_CASE("a variable outside every scope has one component, on the current device", "[strategy][variable]") {
  Variable here(Tensor::scalar(1.0f));
  REQUIRE(&here.strategy() == &get_strategy());
  REQUIRE(here.value().device() == Device());
  here.assign_add(2.0f);
  REQUIRE(here.value().item<float>() == 3.0f);
  const DeviceScope device(TestBackend::device(0));
  REQUIRE(Variable(Tensor::scalar(1.0f)).value().device() == TestBackend::device(0));
}

TEST_CASE("a variable of one device follows the rules of one replica", "[strategy][variable]") {
  OneDeviceStrategy one(TestBackend::device());
  const auto scope = one.scope();
  Variable variable(Tensor::scalar(1.0f), {.aggregation = sum});
  REQUIRE(one.reduce(ReduceOp::sum, variable).item<float>() == 1.0f);
  one.run([&](ReplicaContext&) { variable.assign_add(2.0f); });
  REQUIRE(components(variable) == std::vector<float>{3});
}

}  // namespace lockstep::test
