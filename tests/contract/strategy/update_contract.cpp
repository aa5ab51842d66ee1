#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// StrategyExtended::update.
namespace lockstep::test {

namespace {

std::vector<float> components(const Variable& variable) {
  return items<float>(variable.strategy().local_results(variable));
}

}  // namespace

TEST_CASE("update-results: grouped as a mirrored value, ungrouped as a sequence", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(5.0f));
  const auto assign_one = [](Tensor& local) {
    local.fill_(1.0f);
    return local;
  };
  const Mirrored<Tensor> grouped = strategy.extended().update(variable, assign_one);
  REQUIRE(items<float>(grouped) == std::vector<float>{1, 1});
  REQUIRE(grouped[1].device() == TestBackend::device(1));
  REQUIRE(components(variable) == std::vector<float>{1, 1});
  const std::vector<Tensor> sequence = strategy.extended().update(ungrouped, variable, assign_one);
  REQUIRE(items<float>(sequence) == std::vector<float>{1, 1});
}

TEST_CASE("update hands each component its part of the arguments", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  auto& x = strategy.extended();
  Variable variable(Tensor::scalar(10.0f)), other(Tensor::scalar(0.5f));
  const Mirrored<Tensor> gradient(std::vector{Tensor::scalar(1.0f, TestBackend::device(0)),
                                              Tensor::scalar(2.0f, TestBackend::device(1))});
  std::vector<Device> devices;
  x.update(
      variable,
      [&](Tensor& local, const Tensor& g, float rate, const std::string& text,
          const std::map<std::string, Tensor>& nest, const Variable& v) {
        devices.push_back(current_device());
        if (text == "text") local.sub_(g * rate);
        local.add_(nest.at("g"));
        local.add_(v);
      },
      gradient, 3.0f, "text", std::map<std::string, Mirrored<Tensor>>{{"g", gradient}}, other);
  REQUIRE(devices == TestBackend::devices(2));
  REQUIRE(components(variable) == std::vector<float>{8.5f, 6.5f});  // 10 - 3 g + g + 0.5
}

TEST_CASE("update keeps the structure of results", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(5.0f));
  const Tensor captured = Tensor::scalar(1.0f);
  const auto fn = [&](Tensor&) { return std::tuple{get_update_replica_id().value(), captured, variable}; };
  const auto [index, same, var] = strategy.extended().update(variable, fn);
  REQUIRE((index[0] == 0 && index[1] == 1));
  REQUIRE(same.is_same_object());
  REQUIRE(var == variable);
  const auto [indices, sames, again] = strategy.extended().update(ungrouped, variable, fn);
  REQUIRE(indices == std::vector<int>{0, 1});
  REQUIRE(sames[1].is_same_object(captured));
  REQUIRE(again == variable);
  STATIC_REQUIRE(std::is_void_v<decltype(strategy.extended().update(variable, [](Tensor&) {}))>);
  STATIC_REQUIRE(std::is_void_v<decltype(strategy.extended().update(ungrouped, variable, [](Tensor&) {}))>);
}

TEST_CASE("update copies a local that points elsewhere into the component", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::from<float>({1, 2}, {2}), {.name = "w"});
  const Tensor replacement = Tensor::from<float>({3, 4}, {2});
  strategy.extended().update(variable, [&](Tensor& local) { local = replacement; });
  for (const Tensor& part : strategy.local_results(variable)) {
    REQUIRE(part.to_vector<float>() == std::vector<float>{3, 4});
    REQUIRE_FALSE(part.is_same_object(replacement));
  }
  variable.assign_add(1.0f);
  REQUIRE(replacement.to_vector<float>() == std::vector<float>{3, 4});
  strategy.extended().update(variable, [&](Tensor& local) { local = local * 2; });
  REQUIRE(variable.value().to_vector<float>() == std::vector<float>{8, 10});

  REQUIRE_THROWS_MATCHES(
      strategy.extended().update(variable, [&](Tensor& local) { local = Tensor::zeros({3}); }),
      InvalidArgument, says("update of the variable 'w'", "[3] float32", "[2] float32"));
  REQUIRE_THROWS_MATCHES(
      strategy.extended().update(variable, [&](Tensor& local) { local = Tensor::zeros({2}, DType::f64); }),
      InvalidArgument, says("update of the variable 'w'", "float64"));
  REQUIRE(variable.value().to_vector<float>() == std::vector<float>{8, 10});
}

TEST_CASE("in update the local and the variable are one, and snapshots stay", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  auto& x = strategy.extended();
  const auto result = [&](const std::function<void(Tensor&, Variable&)>& fn) {
    Variable variable(Tensor::scalar(0.0f));
    const Tensor before = variable.value();
    x.update(variable, [&](Tensor& local) { fn(local, variable); });
    REQUIRE(before.item<float>() == 0.0f);
    const auto parts = components(variable);
    REQUIRE(parts[0] == parts[1]);
    return parts[0];
  };
  const auto added = [](Tensor& local, Variable& variable) {
    variable.assign_add(1.0f);
    local.add_(1.0f);
  };
  REQUIRE(result(added) == 2.0f);
  const auto filled = [](Tensor& local, Variable& variable) {
    variable.assign(4.0f);
    REQUIRE(local.item<float>() == 4.0f);
    local.fill_(9.0f);
  };
  REQUIRE(result(filled) == 9.0f);
  const auto looked = [](Tensor& local, Variable& variable) {
    local.add_(1.0f);
    const Tensor snapshot = variable.value();
    local.add_(1.0f);
    REQUIRE(snapshot.item<float>() == 1.0f);
  };
  REQUIRE(result(looked) == 2.0f);
  // What is kept is a snapshot, too.
  std::vector<Tensor> kept;
  Variable variable(Tensor::scalar(5.0f));
  x.update(variable, [&](Tensor& local) { kept.push_back(local); });
  kept[1].fill_(77.0f);
  REQUIRE(components(variable) == std::vector<float>{5, 5});
  variable.assign_add(1.0f);
  REQUIRE(kept[0].item<float>() == 5.0f);
}

TEST_CASE("update refuses per-replica arguments before anything has changed", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(5.0f));
  bool called = false;
  const auto fn = [&](Tensor&, const Tensor&) { called = true; };
  REQUIRE_THROWS_MATCHES(
      strategy.extended().update(variable, fn, scalars<float>({1, 2})), InvalidArgument,
      says("update", "per-replica value with 2 components", "reduce_to(op, value, variable)"));
  REQUIRE_THROWS_MATCHES(strategy.extended().update(ungrouped, variable, fn, scalars<float>({1, 2})),
                         InvalidArgument, says("per-replica value"));
  REQUIRE_FALSE(called);
  // What reduce_to gives is taken.
  const auto total = strategy.extended().reduce_to(ReduceOp::sum, scalars<float>({1, 2}), variable);
  strategy.extended().update(
      variable, [](Tensor& local, const Tensor& g) { local.sub_(g); }, total);
  REQUIRE(components(variable) == std::vector<float>{2, 2});
}

TEST_CASE("update refuses mirrored arguments of other devices before anything has changed",
          "[strategy][update]") {
  Replicas strategy(3);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(5.0f));
  const Mirrored<Tensor> two(std::vector{Tensor::scalar(1.0f, TestBackend::device(0)),
                                         Tensor::scalar(2.0f, TestBackend::device(1))});
  REQUIRE_THROWS_MATCHES(strategy.extended().update(
                             variable, [](Tensor& local, const Tensor& g) { local.add_(g); }, two),
                         InvalidArgument,
                         says("update", "a mirrored value with 2 components", "what is updated has 3"));
  REQUIRE(components(variable) == std::vector<float>{5, 5, 5});
}

TEST_CASE("update refuses another strategy's variable", "[strategy][update]") {
  Replicas strategy(2);
  const Variable outside(Tensor::scalar(5.0f), {.name = "w"});
  REQUIRE_THROWS_MATCHES(strategy.extended().update(outside, [](Tensor&) {}), InvalidArgument,
                         says("update of the variable 'w' by MirroredStrategy", "made by another strategy",
                              "the default strategy"));
}

TEST_CASE("update lets the function's exception pass", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  const Variable variable(Tensor::scalar(5.0f));
  REQUIRE_THROWS_MATCHES(
      strategy.extended().update(variable, [](Tensor&) { throw std::runtime_error("no"); }),
      std::runtime_error, says("no"));
  REQUIRE(in_cross_replica_context());
  REQUIRE(get_update_replica_id() == std::nullopt);
  // The components before it stay as they were, too.
  int calls = 0;
  REQUIRE_THROWS_AS(strategy.extended().update(variable,
                                               [&](Tensor& local) {
                                                 if (++calls == 2) throw std::runtime_error("no");
                                                 local.fill_(7.0f);
                                               }),
                    std::runtime_error);
  REQUIRE(components(variable) == std::vector<float>{5, 5});
}

TEST_CASE("update runs in a merge function", "[strategy][update]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable variable(Tensor::scalar(5.0f));
  const auto seen = strategy.run([&](ReplicaContext& ctx) {
    const Tensor gradient = Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group()));
    return ctx
        .merge_call(
            [&](Strategy& s, const PerReplica<Tensor>& g) {
              const auto total = s.extended().reduce_to(ReduceOp::mean, g, variable);
              return s.extended().update(
                  variable,
                  [](Tensor& local, const Tensor& part) {
                    local.sub_(part);
                    return local;
                  },
                  total);
            },
            gradient)
        .item<float>();
  });
  REQUIRE((seen[0] == 4.5f && seen[1] == 4.5f));
  REQUIRE(components(variable) == std::vector<float>{4.5f, 4.5f});
}

TEST_CASE("update of one component calls once and gives its result unwrapped", "[strategy][update]") {
  OneDeviceStrategy one(TestBackend::device());
  int calls = 0;
  const auto fn = [&](Tensor& local) {
    ++calls;
    local.add_(1.0f);
    return local;
  };
  {
    const auto scope = one.scope();
    const Variable variable(Tensor::scalar(5.0f));
    const Tensor result = one.extended().update(variable, fn);
    REQUIRE(result.item<float>() == 6.0f);
    REQUIRE(one.extended().update(ungrouped, variable, fn).size() == 1);
  }
  REQUIRE(calls == 2);
  const Variable variable(Tensor::scalar(5.0f));
  const Tensor result = get_strategy().extended().update(variable, fn);
  REQUIRE(result.item<float>() == 6.0f);
  REQUIRE(variable.value().item<float>() == 6.0f);
}

}  // namespace lockstep::test
