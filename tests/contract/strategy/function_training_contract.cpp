#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/function_calls.hpp"
#include "support/matchers.hpp"
#include "support/replica_values.hpp"

/// Training in a function of a strategy: the bits are those of the plain loop.
namespace lockstep::test {

namespace {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>()>;

PerReplica<Tensor> rows(int n, int step) {
  std::vector<Values> values;
  for (int i = 0; i < n; ++i) {
    const auto first = static_cast<float>((step * 7 + i) % 5) * 0.37f - 0.8f;
    values.push_back({first, first * first, 1.3f - first, 0.11f});
  }
  return vectors(values);
}

/// A model of one vector, its optimizer, and its step: the gradient is x * w.
class Training {
 public:
  Training(int n, const MakeOptimizer& make) : strategy(n), optimizer(make()) {}

  void step(const Tensor& x) { optimizer->apply_gradients({{x * weights.value(), weights}, {sum(x), bias}}); }
  std::vector<Values> state() {
    std::vector<Values> all{weights.value().to_vector<float>(), bias.value().to_vector<float>()};
    for (const auto& [name, variable] : optimizer->variables())
      all.push_back(variable.value().cast(DType::f32).to_vector<float>());
    for (const Tensor& component : strategy.local_results(weights))
      all.push_back(component.to_vector<float>());
    return all;
  }

  Replicas strategy;
  Variable weights =
      strategy.make_variable(Tensor::from<float>({0.5, -0.25, 2, 1}, {4}), {.name = "weights"});
  Variable bias = strategy.make_variable(Tensor::scalar(0.1f), {.name = "bias"});
  std::unique_ptr<optim::Optimizer> optimizer;
};

const optim::LearningRate kSchedule =
    optim::LearningRate::step_decay({.initial = 0.05, .every = 2, .factor = 0.7});

const std::vector<std::pair<std::string, MakeOptimizer>>& optimizers() {
  using namespace optim;
  static const std::vector<std::pair<std::string, MakeOptimizer>> all = {
      {"SGD",
       [] { return std::make_unique<SGD>(SGDOptions{.learning_rate = kSchedule, .weight_decay = 0.01}); }},
      {"Momentum",
       [] {
         return std::make_unique<Momentum>(
             MomentumOptions{.learning_rate = kSchedule, .momentum = 0.9, .nesterov = true});
       }},
      {"Adam", [] { return std::make_unique<Adam>(AdamOptions{.learning_rate = kSchedule}); }},
      {"Adam, clipped",
       [] {
         return std::make_unique<Adam>(AdamOptions{.learning_rate = kSchedule, .global_clip_norm = 0.5});
       }},
      {"AdamW", [] { return std::make_unique<AdamW>(AdamWOptions{.learning_rate = kSchedule}); }}};
  return all;
}

}  // namespace

TEST_CASE("optimizers make the plain loop's steps in a function", "[optim][function]") {
  const auto& [name, make] = optimizers()[GENERATE(0U, 1U, 2U, 3U, 4U)];
  CAPTURE(name);
  const int n = some_replicas();
  Training plain(n, make), traced(n, make);
  auto step = traced.strategy.function([&](const Tensor& x) { traced.step(x); });
  const auto both = [&](const auto& act) { act(plain), act(traced); };
  for (int call = 0; call < 9; ++call) {
    const auto x = rows(n, call);
    if (call == 5) both([](Training& one) { one.optimizer->set_learning_rate(0.125); });
    if (call == 6) both([&](Training& one) { one.strategy.run([&](const Tensor& y) { one.step(y); }, x); });
    if (call == 7) both([](Training& one) { one.optimizer->iterations().assign(1); });
    plain.strategy.run([&](const Tensor& y) { plain.step(y); }, x);
    step(x);
    REQUIRE(traced.state() == plain.state());
    REQUIRE(traced.optimizer->learning_rate() == plain.optimizer->learning_rate());
  }
  REQUIRE(step.num_traces() == 1);
}

TEST_CASE("a function makes several steps of an optimizer", "[optim][function]") {
  const int n = some_replicas();
  const auto& make = optimizers()[2].second;
  Training plain(n, make), traced(n, make);
  auto step = traced.strategy.function([&](const Tensor& x) {
    traced.step(x);
    traced.step(x * 0.5f);
  });
  for (int call = 0; call < 5; ++call) {
    const auto x = rows(n, call);
    plain.strategy.run(
        [&](const Tensor& y) {
          plain.step(y);
          plain.step(y * 0.5f);
        },
        x);
    step(x);
    REQUIRE(traced.state() == plain.state());
  }
}

TEST_CASE("a step that fails in its trace leaves the optimizer as it was", "[optim][function]") {
  const int n = some_replicas();
  Training traced(n, optimizers()[2].second);
  bool fails = false;
  auto step = traced.strategy.function([&](const Tensor& x) {
    if (fails) throw std::runtime_error("failed");
    traced.step(x);
  });
  step(rows(n, 0));
  const auto before = traced.state();
  fails = true;
  REQUIRE_THROWS_MATCHES(step(rows(n, 1)), std::runtime_error, says("failed"));
  REQUIRE(traced.state() == before);
  fails = false;
  for (int call = 1; call < 4; ++call) step(rows(n, call));
  Training plain(n, optimizers()[2].second);
  for (int call = 0; call < 4; ++call)
    plain.strategy.run([&](const Tensor& y) { plain.step(y); }, rows(n, call));
  REQUIRE(traced.state() == plain.state());
}

TEST_CASE("a schedule that gives no rate fails before a launch", "[optim][function]") {
  const int n = some_replicas();
  Training traced(n, [] {
    return std::make_unique<optim::SGD>(optim::SGDOptions{
        .learning_rate = optim::LearningRate([](std::int64_t step) { return step == 3 ? -1.0 : 0.5; })});
  });
  auto step = traced.strategy.function([&](const Tensor& x) { traced.step(x); });
  for (int call = 0; call < 3; ++call) step(rows(n, call));
  const auto before = traced.state();
  REQUIRE_THROWS_MATCHES(step(rows(n, 3)), InvalidArgument, says("rate of step 3", "at least 0"));
  REQUIRE(traced.state() == before);
  traced.optimizer->set_learning_rate(0.5);
  step(rows(n, 3));
  REQUIRE(traced.optimizer->iterations().value().item<std::int64_t>() == 4);
}

TEST_CASE("metrics count in a function", "[metrics][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  const auto scope = strategy.scope();
  metrics::Mean mean;
  metrics::Accuracy accuracy;
  auto step = strategy.function([&](const Tensor& x, const Tensor& labels, const Tensor& logits) {
    mean.update(x);
    accuracy.update(labels, logits);
  });
  double total = 0;
  int count = 0;
  for (int call = 0; call < 6; ++call) {
    if (call == 4) {
      mean.reset();
      total = count = 0;
    }
    std::vector<std::vector<float>> x, logits;
    std::vector<std::vector<std::int64_t>> labels;
    std::vector<Tensor> logit_tensors;
    for (int i = 0; i < n; ++i) {
      x.push_back({static_cast<float>(call), static_cast<float>(i)});
      total += call + i;
      count += 2;
      labels.push_back({0, 1});
      logit_tensors.push_back(Tensor::from<float>({1, 0, 1, 0}, {2, 2}, TestBackend::device(i)));
    }
    step(vectors(x), vectors(labels), PerReplica(std::move(logit_tensors)));
    REQUIRE(mean.result().item<double>() == total / count);
    REQUIRE(accuracy.result().item<double>() == 0.5);
  }
}

TEST_CASE("gradients accumulate in a function, a trace for each of the steps", "[optim][function]") {
  const int n = some_replicas();
  constexpr int kSteps = 3;
  struct Accumulating : Training {
    using Training::Training;
    void step(const Tensor& x) {
      if (const auto total = gradients.add({{x * weights.value(), weights}, {sum(x), bias}}))
        optimizer->apply_gradients(*total);
    }
    optim::GradientAccumulator gradients{kSteps};
  };
  const auto& make = optimizers()[2].second;
  Accumulating plain(n, make), traced(n, make);
  bool fails = false;
  auto step = traced.strategy.function([&](const Tensor& x) {
    traced.step(x);
    if (fails) throw std::runtime_error("failed");
  });
  for (int call = 0; call < 5 * kSteps; ++call) {
    const auto x = rows(n, call);
    if (call == kSteps + 1 && TestBackend::capabilities().capture) {  // on the host what was done is done
      fails = true;
      REQUIRE_THROWS_MATCHES(step(x), std::runtime_error, says("failed"));
      fails = false;
    }
    plain.strategy.run([&](const Tensor& y) { plain.step(y); }, x);
    step(x);
    REQUIRE(traced.state() == plain.state());
    if (call != 3 * kSteps) continue;
    plain.gradients.reset();
    traced.gradients.reset();
  }
  REQUIRE(step.num_traces() >= kSteps);
}

TEST_CASE("reductions overlap in a function", "[overlap][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  const auto step = [](ReplicaContext& ctx, const Tensor& x) {
    PackedReduction reduction(ctx, ReduceOp::sum, {.bytes_per_pack = 20});
    for (int k = 0; k < 5; ++k) reduction.add(x * static_cast<float>(k));
    auto work = ctx.start_all_reduce(ReduceOp::mean, x);
    const Tensor meanwhile = x + 1.0f;
    return std::tuple{reduction.wait(), work.wait() + meanwhile};
  };
  auto traced = strategy.function(step);
  for (int call = 0; call < 5; ++call) {
    const auto x = rows(n, call);
    const auto [sums, other] = traced(x);
    const auto [own_sums, own_other] = strategy.run(step, x);
    for (std::size_t k = 0; k < sums.size(); ++k)
      for (int i = 0; i < n; ++i) {
        REQUIRE(sums[k][i].to_vector<float>() == own_sums[k][i].to_vector<float>());
        REQUIRE(other[i].to_vector<float>() == own_other[i].to_vector<float>());
      }
  }
}

TEST_CASE("a function takes a dataset's steps, which are fetched ahead", "[input][function]") {
  const int n = some_replicas();
  Replicas strategy(n);
  const Tensor numbers = Tensor::arange<std::int64_t>(0, 23 * n + 1, 1, DType::f32);
  auto step = strategy.function(
      [](ReplicaContext& ctx, const Tensor& x) { return ctx.all_reduce(ReduceOp::sum, sum(x)); });
  for (int epoch = 0; epoch < 3; ++epoch) {
    float total = 0;
    for (const auto& x : strategy.distribute_dataset(Dataset::from_tensor_slices(numbers).batch(4 * n)))
      total += step(x)[0].to_vector<float>()[0];
    REQUIRE(total == static_cast<float>(23 * n * (23 * n + 1) / 2));
  }
}

namespace {

/// Its update computes with the learning rate on the host.
class Plain final : public optim::Optimizer {
 public:
  Plain() : Optimizer("Plain", 0.5, 0, {}) {}

 private:
  void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor>,
              const Step& step) const override {
    variable.sub_(gradient * static_cast<float>(step.learning_rate));
  }
};

}  // namespace

TEST_CASE("an optimizer that computes on the host cannot be traced", "[optim][function]") {
  const int n = some_replicas();
  Training traced(n, [] { return std::make_unique<Plain>(); });
  auto step = traced.strategy.function([&](const Tensor& x) { traced.step(x); });
  step(rows(n, 0));
  const auto before = traced.state();
  REQUIRE_THROWS_MATCHES(step(rows(n, 1)), Unsupported,
                         says("apply_gradients of Plain", "traced step", "update_parameters"));
  REQUIRE(traced.state() == before);
}

}  // namespace lockstep::test
