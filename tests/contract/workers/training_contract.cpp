#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <lockstep/lockstep.hpp>

#include "support/world.hpp"

/// Optimizers, accumulated and clipped gradients, and metrics.
namespace lockstep::test {

namespace {

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>()>;

/// A replica's gradient in a step: numbers with many significant bits.
Tensor gradient(int replica, int step, const Shape& shape) {
  const auto scale = static_cast<float>(1 + replica) / static_cast<float>(7 + step);
  return ((Tensor::arange(static_cast<float>(shape.size())) - 3.0f) * scale).reshape(shape);
}

/// Two variables of a model.
struct Model {
  Variable w, b;

  explicit Model(Strategy& strategy)
      : w(strategy.make_variable(Tensor::arange(21.0f).reshape({7, 3}) / 5.0f, {.name = "w"})),
        b(strategy.make_variable(Tensor::zeros({3}), {.name = "b"})) {}

  std::vector<optim::GradientAndVariable> gradients(int replica, int step) const {
    return {{gradient(replica, step, {7, 3}), w}, {gradient(replica, step + 1, {3}), b}};
  }
  /// This process's components, w's and then b's.
  std::vector<Tensor> components() const {
    std::vector<Tensor> result;
    for (const Variable& variable : {w, b})
      for (const Tensor& component : variable.strategy().local_results(variable)) result.push_back(component);
    return result;
  }
};

/// train(strategy, model) on the strategy under test and on one process's replicas; how the models differ.
std::string difference_of_models(const std::function<void(Strategy&, Model&)>& train) {
  const auto trained = [&](Strategy& strategy) {
    Model model(strategy);
    train(strategy, model);
    return model.components();
  };
  const std::vector<Tensor> mine = trained(world().strategy), expected = trained(one_process());
  std::string text;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const bool is_w = i < mine.size() / 2;
    text += difference(mine[i], expected[is_w ? 0 : expected.size() / 2]);
  }
  return text;
}

void take_steps(Strategy& strategy, Model& model, optim::Optimizer& optimizer, int num_steps) {
  for (int step = 0; step < num_steps; ++step)
    strategy.run([&](ReplicaContext& ctx) {
      optimizer.apply_gradients(model.gradients(ctx.replica_id_in_sync_group(), step));
    });
}

}  // namespace

TEST_CASE("five steps of an optimizer give the bits of one process, on all replicas", "[workers]") {
  const auto [name, make] = GENERATE(table<std::string, MakeOptimizer>({
      {"SGD", [] { return std::make_unique<optim::SGD>(optim::SGDOptions{.learning_rate = 0.1}); }},
      {"SGD, clipped",
       [] {
         return std::make_unique<optim::SGD>(
             optim::SGDOptions{.learning_rate = 0.1, .global_clip_norm = 1.5});
       }},
      {"Momentum",
       [] {
         return std::make_unique<optim::Momentum>(
             optim::MomentumOptions{.learning_rate = 0.05, .nesterov = true});
       }},
      {"Adam", [] { return std::make_unique<optim::Adam>(optim::AdamOptions{.learning_rate = 0.01}); }},
  }));
  CAPTURE(name);
  std::vector<std::int64_t> iterations;
  CHECK(difference_of_models([&, &make = make](Strategy& strategy, Model& model) {
          const auto optimizer = make();
          take_steps(strategy, model, *optimizer, 5);
          iterations.push_back(optimizer->iterations().value().item<std::int64_t>());
        }) == "");
  CHECK(iterations == std::vector<std::int64_t>{5, 5});
}

TEST_CASE("gradients are summed over all workers, and not averaged", "[workers]") {
  const World& w = world();
  Variable variable = w.strategy.make_variable(Tensor::scalar(0.0f));
  optim::SGD sgd({.learning_rate = 1.0});
  w.strategy.run([&] { sgd.apply_gradients({{Tensor::scalar(1.0f), variable}}); });
  CHECK(variable.value().item<float>() == -static_cast<float>(w.num_replicas));
}

TEST_CASE("sparse gradients are summed as rows over all workers", "[workers]") {
  CHECK(difference_of_models([](Strategy& strategy, Model& model) {
          optim::SGD sgd({.learning_rate = 0.1});
          strategy.run([&](ReplicaContext& ctx) {
            const int replica = ctx.replica_id_in_sync_group();
            const IndexedSlices rows{gradient(replica, 0, {2, 3}),
                                     Tensor::from<std::int64_t>({replica % 7, (replica + 3) % 7}, {2}),
                                     {7, 3}};
            sgd.apply_gradients({{rows, model.w}, {gradient(replica, 1, {3}), model.b}});
          });
        }) == "");
}

TEST_CASE("gradients outside replica functions are taken as they are, on every worker", "[workers]") {
  CHECK(
      difference_of_models([](Strategy& strategy, Model& model) {
        const auto scope = strategy.scope();
        optim::Momentum momentum({.learning_rate = 0.1});
        for (int step = 0; step < 3; ++step)
          momentum.apply_gradients({{gradient(1, step, {7, 3}), model.w}, {gradient(2, step, {3}), model.b}});
      }) == "");
}

TEST_CASE("an accumulator reduces once in its number of steps", "[workers]") {
  int num_totals = 0;
  CHECK(difference_of_models([&](Strategy& strategy, Model& model) {
          optim::GradientAccumulator accumulator(3);
          optim::Adam adam({.learning_rate = 0.02});
          for (int step = 0; step < 7; ++step)
            strategy.run([&](ReplicaContext& ctx) {
              const int replica = ctx.replica_id_in_sync_group();
              if (const auto total = accumulator.add(model.gradients(replica, step))) {
                if (replica == world().first_replica) ++num_totals;
                adam.apply_gradients(*total);
              }
            });
        }) == "");
  CHECK(num_totals == 4);
}

TEST_CASE("gradients that replicas clip by the norm of their sum are equal everywhere", "[workers]") {
  const World& w = world();
  CHECK(difference_from_one_process([](ReplicaContext& ctx) {
          const int replica = ctx.replica_id_in_sync_group();
          const auto sums = ctx.all_reduce(
              ReduceOp::sum, std::vector<Tensor>{gradient(replica, 0, {7, 3}), gradient(replica, 1, {3})});
          auto [clipped, norm] = optim::clip_by_global_norm(sums, 2.0);
          clipped.push_back(norm);
          return clipped;
        }) == "");
  const auto norms = w.strategy.run([](ReplicaContext& ctx) {
    const auto sum = ctx.all_reduce(ReduceOp::sum, gradient(ctx.replica_id_in_sync_group(), 0, {7, 3}));
    const auto [clipped, norm] = optim::clip_by_global_norm({sum}, 2.0);
    return optim::global_norm(clipped).item<double>();
  });
  for (const double norm : norms) CHECK(std::abs(norm - 2) < 1e-5);
}

TEST_CASE("a learning-rate schedule and the count of steps are the same on every worker", "[workers]") {
  const World& w = world();
  Model model(w.strategy);
  optim::SGD sgd({.learning_rate = 0.5});
  take_steps(w.strategy, model, sgd, 4);
  for (const Tensor& count : w.strategy.local_results(sgd.iterations()))
    CHECK(count.item<std::int64_t>() == 4);
  sgd.set_learning_rate(0.25);
  CHECK(sgd.learning_rate() == 0.25);
}

TEST_CASE("replicas that give other gradients are told on every worker, and no variable changes",
          "[workers]") {
  const World& w = world();
  if (w.num_replicas == 1) return;
  Model model(w.strategy);
  optim::SGD sgd({.learning_rate = 0.5});
  const Thrown thrown = thrown_once(w.strategy, [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      const int replica = ctx.replica_id_in_sync_group();
      auto gradients = model.gradients(replica, 0);
      if (replica == w.last_replica()) gradients.pop_back();
      sgd.apply_gradients(gradients);
    });
  });
  CHECK(thrown.is<CollectiveMismatch>());
  CHECK(thrown.names(w.last_replica()));
  CHECK(model.b.value().to_vector<float>() == std::vector<float>{0, 0, 0});
}

TEST_CASE("a mean counts what all workers have counted", "[workers]") {
  const World& w = world();
  const auto scope = w.strategy.scope();
  metrics::Mean mean;
  double total = 0, count = 0;
  for (int replica = 0; replica < w.num_replicas; ++replica)
    for (int i = 0; i <= replica; ++i) {
      total += replica + i;
      ++count;
    }
  const auto update = [&] {
    w.strategy.run([&](ReplicaContext& ctx) {
      const auto id = static_cast<float>(ctx.replica_id_in_sync_group());
      mean.update(Tensor::arange(id, 2 * id + 1));  // replica r has r + 1 values
    });
  };
  update();
  CHECK(std::abs(mean.result().item<double>() - total / count) < 1e-12);
  update();
  CHECK(std::abs(mean.result().item<double>() - total / count) < 1e-12);
  const auto everybodys = w.strategy.run([&] {
    const sync_on_read guard;
    return mean.result().item<double>();
  });
  for (const double result : everybodys) CHECK(std::abs(result - total / count) < 1e-12);
  mean.reset();
  CHECK(mean.result().item<double>() == 0);
}

TEST_CASE("an accuracy is the share of all workers' rows", "[workers]") {
  const World& w = world();
  const auto scope = w.strategy.scope();
  metrics::Accuracy accuracy;
  std::int64_t right = 0, rows = 0;
  for (int replica = 0; replica < w.num_replicas; ++replica) {
    rows += replica + 2;
    ++right;
  }
  w.strategy.run([&](ReplicaContext& ctx) {
    const std::int64_t n = ctx.replica_id_in_sync_group() + 2;  // of which the first is right
    accuracy.update(Tensor::zeros({n}, DType::i64), Tensor::arange(n));
  });
  CHECK(std::abs(accuracy.result().item<double>() - static_cast<double>(right) / static_cast<double>(rows)) <
        1e-12);
}

}  // namespace lockstep::test
