#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <lockstep/lockstep.hpp>

#include "support/components.hpp"
#include "support/expected.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"
#include "support/scalar_optimizer.hpp"

/// Optimizers on replicas.
namespace lockstep::test {

using Catch::Matchers::WithinRel;
using optim::SGD;

namespace {

/// Replica r's gradient in a step: small whole numbers, so that sums over replicas are exact.
double gradient_of(int replica, int step) { return static_cast<double>((replica + step) % 4) - 1; }

/// An optimizer, and what it does to one number.
struct Case {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>()> make;
  std::function<double(double w, double gradient)> step;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back(
      {"SGD",
       [] { return std::make_unique<SGD>(optim::SGDOptions{.learning_rate = 0.1, .weight_decay = 0.01}); },
       [s = ScalarMomentum{.learning_rate = 0.1, .weight_decay = 0.01}](double w, double g) mutable {
         return s.step(w, g);
       }});
  for (const bool nesterov : {false, true})
    all.push_back(
        {nesterov ? "Nesterov" : "Momentum",
         [nesterov] {
           return std::make_unique<optim::Momentum>(optim::MomentumOptions{
               .learning_rate = 0.1, .momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.01});
         },
         [s =
              ScalarMomentum{
                  .learning_rate = 0.1, .momentum = 0.9, .nesterov = nesterov, .weight_decay = 0.01}](
             double w, double g) mutable { return s.step(w, g); }});
  all.push_back(
      {"Adam", [] { return std::make_unique<optim::Adam>(optim::AdamOptions{.learning_rate = 0.1}); },
       [s = ScalarAdam{.learning_rate = 0.1}](double w, double g) mutable { return s.step(w, g); }});
  all.push_back({"AdamW",
                 [] {
                   return std::make_unique<optim::AdamW>(
                       optim::AdamWOptions{.learning_rate = 0.1, .weight_decay = 0.25});
                 },
                 [s = ScalarAdam{.learning_rate = 0.1, .weight_decay = 0.25}](double w, double g) mutable {
                   return s.step(w, g);
                 }});
  return all;
}

/// Several steps of every optimizer on n replicas, against the reference. @param tolerance  relative.
template <Element T>
void check_against_reference(int n, const Shape& shape, double tolerance) {
  for (Case& optimizer_case : cases()) {
    CAPTURE(optimizer_case.name, n, shape);
    Replicas strategy(n);
    const auto scope = strategy.scope();
    Variable w(filled<T>(shape, 2), {.name = "w"}), b(filled<T>({}, 3), {.name = "b"});
    const auto optimizer = optimizer_case.make();
    double expected = 2;
    for (int step = 0; step < 5; ++step) {
      strategy.run([&](ReplicaContext& ctx) {
        const double g = gradient_of(ctx.replica_id_in_sync_group(), step);
        optimizer->apply_gradients({{filled<T>(shape, g), w}, {filled<T>({}, 1), b}});
      });
      double sum = 0;
      for (int replica = 0; replica < n; ++replica) sum += gradient_of(replica, step);
      expected = optimizer_case.step(expected, sum);
      REQUIRE_THAT(static_cast<double>(same_everywhere<T>(w)), WithinRel(expected, tolerance));
    }
    same_everywhere<T>(b);
    REQUIRE(steps(*optimizer) == 5);
    for (const auto& [name, variable] : optimizer->variables())
      if (name != "iterations") same_everywhere<T>(variable);
  }
}

}  // namespace

TEST_CASE("optimizers sum gradients over replicas and step as their definitions say", "[strategy][optim]") {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  check_against_reference<double>(n, {3}, 1e-13);
  check_against_reference<float>(n, {3}, 2e-5);  // a float for each of 5 steps' roundings
}

TEST_CASE("optimizers update large variables on the replicas' threads alike", "[strategy][optim]") {
  const int n = TestBackend::replica_counts().back();
  check_against_reference<float>(n, {257, 307}, 2e-5);
}

TEST_CASE("gradients are summed, never averaged", "[strategy][optim]") {
  const int n = GENERATE(from_range(TestBackend::replica_counts()));
  Replicas strategy(n);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(0.0f));
  SGD optimizer({.learning_rate = 0.5});
  const Tensor shared = Tensor::scalar(2.0f);
  strategy.run([&](ReplicaContext& ctx) {
    optimizer.apply_gradients({{Tensor::scalar(static_cast<float>(ctx.replica_id_in_sync_group())), w}});
    optimizer.apply_gradients({{shared, w}});  // one object: still a contribution from each
  });
  REQUIRE(same_everywhere<float>(w) == -0.5f * static_cast<float>(triangular(n) + 2 * n));
  REQUIRE(steps(optimizer) == 2);
}

TEST_CASE("P09 a step does not depend on the number of replicas", "[strategy][optim]") {
  // 12 rows, a linear model, squared error over the global batch; 5 replicas get 3, 3, 3, 3 and none.
  std::vector<double> rows, targets;
  for (int i = 0; i < 12; ++i) {
    for (int j = 0; j < 3; ++j) rows.push_back(std::sin(i * 3 + j + 1));
    targets.push_back(std::cos(i));
  }
  std::vector<double> expected;
  for (const int n : {1, 2, 3, 4, 5}) {
    if (n > TestBackend::num_devices()) break;
    Replicas strategy(n);
    const auto scope = strategy.scope();
    Variable w(Tensor::from<double>({0.5, -1, 2}, {3, 1}));
    optim::Adam optimizer({.learning_rate = 0.1, .global_clip_norm = 0.5});
    const auto data = Dataset::from_tensor_slices(Tensor::from(rows, {12, 3}), Tensor::from(targets, {12, 1}))
                          .batch(12)
                          .repeat(4);
    for (const auto& [x, y] : strategy.distribute_dataset(data))
      strategy.run(
          [&](const Tensor& inputs, const Tensor& outputs) {
            const Tensor error = matmul(inputs, w) - outputs;
            optimizer.apply_gradients({{matmul(inputs, error, true, false) * (2.0 / 12), w}});
          },
          x, y);
    const auto values = components<double>(w);
    for (const auto& component : values) REQUIRE(component == values[0]);
    if (expected.empty()) expected = values[0];
    for (std::size_t k = 0; k < 3; ++k)
      REQUIRE_THAT(values[0][k], WithinRel(expected[k], 1e-12));  // order of sums
  }
}

TEST_CASE("in cross-replica context gradients are taken as they are", "[strategy][optim]") {
  Replicas strategy(3);
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({2}), {.name = "w"});
  SGD optimizer({.learning_rate = 0.5});
  optimizer.apply_gradients({{Tensor::full({2}, 2.0f), w}});
  REQUIRE(same_everywhere<float>(w) == -1);
  const auto per_replica = vectors<float>({{1, 1}, {2, 2}, {3, 3}});
  const auto sum = strategy.extended().reduce_to(ReduceOp::sum, per_replica, w);
  optimizer.apply_gradients({{sum, w}});
  REQUIRE(same_everywhere<float>(w) == -4);
  optimizer.apply_gradients(
      {{Mirrored(std::vector{Tensor::full({2}, 2.0f, DType::f32, TestBackend::device(1))}), w}});
  REQUIRE(same_everywhere<float>(w) == -5);
  REQUIRE_THROWS_MATCHES(
      optimizer.apply_gradients({{per_replica, w}}), InvalidArgument,
      says("apply_gradients: the gradient of the variable 'w' is a per-replica value with 3",
           "reduce_to(op, value, variable)"));
  const Mirrored two(std::vector{sum[0], sum[1]});
  REQUIRE_THROWS_MATCHES(optimizer.apply_gradients({{two, w}}), InvalidArgument,
                         says("a mirrored value with 2 components, the variable has 3"));
  REQUIRE(items<float>(sum.size() == 3 ? std::vector{sum[0].slice(0, 1), sum[2].slice(1, 2)}
                                       : std::vector<Tensor>()) == std::vector<float>{6, 6});  // not changed
  REQUIRE(same_everywhere<float>(w) == -5);
  REQUIRE(steps(optimizer) == 3);
}

TEST_CASE("outside every scope apply_gradients enters the variables' strategy", "[strategy][optim]") {
  Replicas strategy(2);
  std::optional<Variable> w;
  {
    const auto scope = strategy.scope();
    w.emplace(Tensor::scalar(1.0f));
  }
  optim::Momentum optimizer({.learning_rate = 0.5});
  optimizer.apply_gradients({{Tensor::scalar(1.0f), *w}});
  REQUIRE(same_everywhere<float>(*w) == 0.5f);
  REQUIRE(strategy.local_results(optimizer.variables()[1].second).size() == 2);
  strategy.run([&] { optimizer.apply_gradients({{Tensor::scalar(0.25f), *w}}); });
  REQUIRE(same_everywhere<float>(*w) == 0.5f - 0.5f * (0.9f + 0.5f));
}

TEST_CASE("apply_gradients with one device", "[strategy][optim]") {
  OneDeviceStrategy strategy(TestBackend::device());
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({2}));
  SGD optimizer({.learning_rate = 1, .global_clip_norm = 5});
  const Tensor g = Tensor::from<float>({6, 8}, {2}, TestBackend::device());
  strategy.run([&] { optimizer.apply_gradients({{g, w}}); });
  optimizer.apply_gradients({{g, w}});
  REQUIRE(w.value().to_vector<float>() == std::vector<float>{-6, -8});
  REQUIRE(g.to_vector<float>() == std::vector<float>{6, 8});
}

TEST_CASE("variables on a parameter device are updated there, once", "[strategy][optim]") {
  CentralStorageStrategy strategy(TestBackend::devices(3), "CPU:9");
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({2}), {.name = "w"}), b(Tensor::scalar(0.0f), {.name = "b"});
  optim::Momentum optimizer({.learning_rate = 0.5, .momentum = 0.5, .global_clip_norm = 13});
  optim::GradientAccumulator accumulator(2);
  for (int i = 0; i < 4; ++i)
    strategy.run([&](ReplicaContext& ctx) {
      const auto r = static_cast<float>(ctx.replica_id_in_sync_group());
      const auto total = accumulator.add({{Tensor::from<float>({r, 2}, {2}), w}, {Tensor::scalar(r), b}});
      if (total) optimizer.apply_gradients(*total);
    });
  // The sums of two steps, [6, 12] and 6, are 6 sqrt(6) long.
  const double g = 13 / std::sqrt(6.0);
  const std::vector<float> values = w.value().to_vector<float>();
  REQUIRE_THAT(values[0], WithinRel(static_cast<float>(-0.5 * (g + 1.5 * g)), 1e-5f));
  REQUIRE_THAT(values[1], WithinRel(static_cast<float>(-(g + 1.5 * g)), 1e-5f));
  REQUIRE(b.value().to(Device()).item<float>() == values[0]);
  for (const auto& [name, variable] : optimizer.variables()) {
    CAPTURE(name);
    REQUIRE(detail::VariableAccess::devices(variable).size() == 1);
    REQUIRE(detail::VariableAccess::devices(variable)[0] == Device("CPU:9"));
  }
  REQUIRE(optimizer.iterations().value().item<std::int64_t>() == 2);
  optimizer.apply_gradients({{Tensor::zeros({2}), w}});
  REQUIRE_THROWS_MATCHES(
      optimizer.apply_gradients({{strategy.extended().broadcast_to(Tensor::zeros({2})), w}}), InvalidArgument,
      says("a mirrored value with 3 components, the variable has 1"));
}

TEST_CASE("an update leaves snapshots of variables as they were", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(1.0f));
  SGD optimizer({.learning_rate = 0.5});
  const auto seen = strategy.run([&] {
    const Tensor before = w;
    optimizer.apply_gradients({{before, w}});
    return std::pair{before.item<float>(), w.value().item<float>()};
  });
  REQUIRE((seen.first[1] == 1 && seen.second[0] == 0 && seen.second[1] == 0));
}

TEST_CASE("sparse gradients are summed as rows and update as dense ones", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable table(Tensor::zeros({3, 2})), w(Tensor::scalar(0.0f));
  SGD optimizer({.learning_rate = 1});
  const auto rows = [](std::initializer_list<float> values, std::initializer_list<std::int64_t> indices) {
    const auto n = static_cast<std::int64_t>(indices.size());
    return IndexedSlices{Tensor::from(values, {n, 2}), Tensor::from(indices, {n}), {3, 2}};
  };
  strategy.run([&](ReplicaContext& ctx) {
    const bool first = ctx.replica_id_in_sync_group() == 0;
    optimizer.apply_gradients({{first ? rows({1, 2}, {1}) : rows({3, 4, 5, 6, 1, 1}, {1, 2, 1}), table},
                               {Tensor::scalar(1.0f), w}});
  });
  for (const auto& component : components<float>(table))
    REQUIRE(component == std::vector<float>{0, 0, -5, -7, -5, -6});
  REQUIRE(same_everywhere<float>(w) == -2);
  // In cross-replica context, plain and mirrored.
  const IndexedSlices plain = rows({1, 1}, {0});
  optimizer.apply_gradients({{plain, table}});
  optimizer.apply_gradients({{Mirrored(std::vector{plain, plain}), table}});
  for (const auto& component : components<float>(table))
    REQUIRE(component == std::vector<float>{-2, -2, -5, -7, -5, -6});
}

TEST_CASE("gradients that are reduced already are applied as they are", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::zeros({2})), table(Tensor::zeros({2, 1})), frozen(Tensor::scalar(7.0f));
  SGD optimizer({.learning_rate = 1});
  const auto row = [](float value) {
    return IndexedSlices{Tensor::from<float>({value}, {1, 1}), Tensor::from<std::int64_t>({1}, {1}), {2, 1}};
  };
  strategy.run([&](ReplicaContext& ctx) {
    const Tensor sum =
        ctx.all_reduce(ReduceOp::sum, Tensor::full({2}, 1.0f + ctx.replica_id_in_sync_group()));
    optimizer.apply_reduced_gradients({{sum * 0.5, w}, {row(4), table}, {std::nullopt, frozen}});
  });
  REQUIRE(same_everywhere<float>(w) == -1.5f);
  for (const auto& component : components<float>(table)) REQUIRE(component == std::vector<float>{0, -4});
  REQUIRE(same_everywhere<float>(frozen) == 7);
  // Outside replica functions gradients are never added.
  optimizer.apply_reduced_gradients({{Tensor::ones({2}), w}});
  REQUIRE(same_everywhere<float>(w) == -2.5f);
  REQUIRE(steps(optimizer) == 2);
  // The caller's word counts.
  strategy.run([&](ReplicaContext& ctx) {
    optimizer.apply_reduced_gradients({{Tensor::full({2}, 1.0f + ctx.replica_id_in_sync_group()), w}});
  });
  REQUIRE(components<float>(w) == std::vector<std::vector<float>>{{-3.5f, -3.5f}, {-4.5f, -4.5f}});
}

TEST_CASE("a central variable takes replica 0's reduced gradient", "[strategy][optim]") {
  CentralStorageStrategy strategy(TestBackend::devices(2), Device("CPU:9"));
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(0.0f));
  SGD optimizer({.learning_rate = 1});
  strategy.run([&](ReplicaContext& ctx) {
    optimizer.apply_reduced_gradients({{Tensor::scalar(2.0f + ctx.replica_id_in_sync_group()), w}});
  });
  REQUIRE(w.value().to(Device()).item<float>() == -2);
}

TEST_CASE("replicas agree whether gradients are reduced", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(0.0f));
  SGD optimizer({.learning_rate = 1});
  REQUIRE_THROWS_MATCHES(strategy.run([&](ReplicaContext& ctx) {
    if (ctx.replica_id_in_sync_group() == 0)
      optimizer.apply_gradients({{Tensor::scalar(1.0f), w}});
    else
      optimizer.apply_reduced_gradients({{Tensor::scalar(1.0f), w}});
  }),
                         CollectiveMismatch, says("apply_gradients", "apply_reduced_gradients"));
  REQUIRE_THROWS_MATCHES(
      strategy.run([&] {
        optimizer.apply_reduced_gradients({{Tensor::ones({2}), w}});
      }),
      InvalidArgument,
      says("apply_reduced_gradients", "the gradient of the variable 'Variable' on replica 0", "[2] float32"));
  REQUIRE(same_everywhere<float>(w) == 0);
}

TEST_CASE("a per-replica value is mirrored where the caller vouches for it", "[strategy]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(1.0f));
  const PerReplica<Tensor> sums =
      strategy.run([](ReplicaContext& ctx) { return ctx.all_reduce(ReduceOp::sum, Tensor::scalar(1.0f)); });
  w.assign_add(Mirrored(sums));
  REQUIRE(same_everywhere<float>(w) == 3);
}

namespace {

/// Its second update fails.
class Failing final : public optim::Optimizer {
 public:
  Failing() : Optimizer("Failing", 1, 0, {}) {}

 private:
  void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor>, const Step&) const override {
    if (num_updates_.fetch_add(1) == 1) throw DeviceError("a launch has failed", {}, /*fatal=*/false);
    variable.sub_(gradient);
  }
  mutable std::atomic<int> num_updates_{0};
};

}  // namespace

TEST_CASE("a strategy whose variables were updated by halves says so", "[strategy][optim]") {
  Replicas strategy(2);
  const auto scope = strategy.scope();
  Variable w(Tensor::scalar(0.0f));
  Failing optimizer;
  REQUIRE_THROWS_MATCHES(strategy.run([&] {
    optimizer.apply_gradients({{Tensor::scalar(1.0f), w}});
  }),
                         DeviceError, says("a launch has failed"));
  REQUIRE_THROWS_MATCHES(
      strategy.run([](ReplicaContext& ctx) { static_cast<void>(ctx.all_reduce(ReduceOp::sum, 1)); }),
      CollectiveAborted, says("apply_gradients of Failing has failed halfway: a launch has failed"));
}

}  // namespace lockstep::test
