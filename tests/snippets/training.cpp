// Examples of the documentation: optimizers, metrics, checkpoints.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

namespace {

ls::Variable ones(ls::Strategy& strategy, std::string name) {
  return strategy.make_variable(ls::Tensor::ones({2}), {.name = std::move(name)});
}
float first(const ls::Variable& variable) { return variable.value().slice(0, 1).item<float>(); }
bool is_near(double a, double b) { return std::abs(a - b) < 1e-5; }

}  // namespace

//! [optim::Optimizer, optim::Optimizer::Step]
/// Moves each element by the learning rate, against the sign of its gradient.
class SignDescent : public ls::optim::Optimizer {
 public:
  explicit SignDescent(double learning_rate) : Optimizer("SignDescent", learning_rate, 0, {}) {}

 private:
  void update(ls::Tensor& variable, const ls::Tensor& gradient, std::span<const ls::Tensor>,
              const Step& step) const override {
    variable.sub_(gradient / ls::sqrt(gradient * gradient) * step.learning_rate);
  }
};
//! [optim::Optimizer, optim::Optimizer::Step]

TEST_CASE("the examples of optimizers are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  ls::Variable w = ones(strategy, "w"), v = ones(strategy, "v");
  const auto gradient = [](const ls::Variable& variable) { return variable.value() * 0.5; };
  //! [optim::SGD, optim::SGDOptions, optim::GradientAndVariable]
  ls::optim::SGD optimizer({.learning_rate = 0.1});
  strategy.run([&] {
    optimizer.apply_gradients({{gradient(w), w}, {gradient(v), v}});  // summed over the replicas, one batch
  });
  //! [optim::SGD, optim::SGDOptions, optim::GradientAndVariable]
  CHECK(is_near(first(w), 0.9));
  {
    ls::Variable sign = ones(strategy, "sign");
    SignDescent descent(0.25);
    strategy.run([&] { descent.apply_gradients({{gradient(sign), sign}}); });
    CHECK(is_near(first(sign), 0.75));
  }

  //! [optim::Momentum, optim::MomentumOptions]
  ls::optim::Momentum momentum({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true});
  momentum.apply_gradients({{ls::Tensor::ones({2}), w}});  // outside replicas: as they are
  //! [optim::Momentum, optim::MomentumOptions]
  CHECK(is_near(first(w), 0.71));

  //! [optim::Adam, optim::AdamOptions]
  ls::optim::Adam adam({.learning_rate = 0.001, .global_clip_norm = 1});
  adam.apply_gradients({{ls::Tensor::ones({2}), v}});
  std::int64_t steps = adam.iterations().value().item<std::int64_t>();  // 1
  //! [optim::Adam, optim::AdamOptions]
  CHECK(steps == 1);
  CHECK(is_near(first(v), 0.899));

  //! [optim::AdamW, optim::AdamWOptions, optim::LearningRate, optim::CosineDecayOptions]
  auto rate =
      ls::optim::LearningRate::cosine_decay({.peak = 1e-3, .num_steps = 1000, .num_warm_up_steps = 10});
  ls::optim::AdamW adamw({.learning_rate = rate, .weight_decay = 0.01});
  double at_first = adamw.learning_rate();  // a tenth of the peak
  //! [optim::AdamW, optim::AdamWOptions, optim::LearningRate, optim::CosineDecayOptions]
  CHECK(is_near(at_first, 1e-4));

  //! [optim::StepDecayOptions]
  auto falling = ls::optim::LearningRate::step_decay({.initial = 0.1, .every = 30, .factor = 0.5});
  double later = falling.at(60);  // 0.025
  //! [optim::StepDecayOptions]
  CHECK(is_near(later, 0.025));

  //! [optim::Gradient]
  std::optional<ls::Tensor> none;                                      // the loss does not depend on v
  optimizer.apply_gradients({{ls::Tensor::ones({2}), w}, {none, v}});  // v is left out
  bool is_nothing = ls::optim::Gradient(none).is_nothing();            // true
  //! [optim::Gradient]
  CHECK(is_nothing);
  CHECK(is_near(first(w), 0.61));
  CHECK(is_near(first(v), 0.899));

  //! [optim::GradientAccumulator]
  ls::optim::GradientAccumulator accumulator(/*num_steps=*/2);
  for (int step = 0; step < 2; ++step)
    strategy.run([&] {
      if (auto total = accumulator.add({{ls::Tensor::full({2}, 0.25f), w}}))  // in every second step
        optimizer.apply_gradients(*total);
    });
  //! [optim::GradientAccumulator]
  CHECK(is_near(first(w), 0.51));

  //! [SGDUpdateOptions]
  auto step = [](ls::Tensor& local, const ls::Tensor& g) {
    ls::sgd_update_(local, g, {}, {.learning_rate = 0.1});
  };
  strategy.extended().update(w, step, strategy.extended().broadcast_to(ls::Tensor::ones({2})));
  //! [SGDUpdateOptions]
  CHECK(is_near(first(w), 0.41));

  //! [AdamUpdateOptions]
  ls::Tensor x = ls::Tensor::ones({2}), first_moment = ls::Tensor::zeros({2}),
             second_moment = ls::Tensor::zeros({2});
  ls::adam_update_(x, ls::Tensor::ones({2}), first_moment, second_moment, /*step=*/1, {.learning_rate = 0.5});
  //! [AdamUpdateOptions]
  CHECK(is_near(x.slice(0, 1).item<float>(), 0.5));
}

//! [metrics::Metric]
/// The part of the rows that are hits, over all replicas.
class Rate : public ls::metrics::Metric {
 public:
  explicit Rate(std::string name) : Metric(std::move(name), {"hits", "rows"}) {}
  void update(std::int64_t hits, std::int64_t rows) { add({amount(double(hits)), amount(double(rows))}); }
  ls::Tensor result() const override {
    const auto sums = totals();  // of all replicas, as of one moment
    return sums[0] / sums[1];
  }
};
//! [metrics::Metric]

TEST_CASE("the examples of metrics are right", "[docs]") {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  auto scope = strategy.scope();
  Rate rate("rate");
  rate.update(1, 2);
  rate.update(2, 2);
  CHECK(rate.result().item<double>() == 0.75);

  //! [metrics::Mean, metrics::Sum]
  ls::metrics::Mean loss("loss");  // in the strategy's scope
  ls::metrics::Sum rows("rows");
  strategy.run([&](ls::ReplicaContext& context) {
    const int n = 1 + context.replica_id_in_sync_group();  // replica 1 has more rows
    loss.update(ls::Tensor::full({n}, float(n)));
    rows.update(ls::Tensor::scalar(n));
  });
  double mean = loss.result().item<double>();   // (1 + 2 + 2) / 3
  double count = rows.result().item<double>();  // 3
  //! [metrics::Mean, metrics::Sum]
  CHECK(is_near(mean, 5.0 / 3));
  CHECK(count == 3);

  //! [metrics::Accuracy, metrics::TopK, metrics::ConfusionMatrix]
  ls::metrics::Accuracy accuracy;
  ls::metrics::TopK top_2(2);
  ls::metrics::ConfusionMatrix confusion(/*num_classes=*/3);
  ls::Tensor labels = ls::Tensor::from<std::int64_t>({0, 2}, {2});
  ls::Tensor logits = ls::Tensor::from<float>({3, 1, 0, /**/ 0, 2, 1}, {2, 3});
  accuracy.update(labels, logits);                  // 0.5: row 1 says class 1
  top_2.update(labels, logits);                     // 1
  confusion.update(labels, ls::argmax(logits, 1));  // rows are labels
  //! [metrics::Accuracy, metrics::TopK, metrics::ConfusionMatrix]
  CHECK(accuracy.result().item<double>() == 0.5);
  CHECK(top_2.result().item<double>() == 1);
  CHECK(confusion.result().to_vector<double>() == std::vector<double>{1, 0, 0, 0, 0, 0, 0, 1, 0});
}

TEST_CASE("the examples of checkpoints are right", "[docs]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "lockstep_docs_checkpoints";
  std::filesystem::remove_all(folder);
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});
  ls::Variable w = ones(strategy, "w");
  ls::optim::Momentum optimizer;
  //! [Checkpoint, CheckpointManager, CheckpointManagerOptions]
  ls::Checkpoint checkpoint({{"w", w}});
  optimizer.build({w});  // makes its slots
  checkpoint.add("optimizer", optimizer);
  ls::CheckpointManager manager(checkpoint, folder, {.max_to_keep = 3, .asynchronous = true});
  manager.save(/*step=*/100);  // a thread writes the file while training goes on
  w.assign(ls::Tensor::zeros({2}));
  std::optional<std::int64_t> step = manager.restore_latest();  // 100; w is ones again
  //! [Checkpoint, CheckpointManager, CheckpointManagerOptions]
  CHECK(step == 100);
  CHECK(first(w) == 1);

  const std::filesystem::path file = *manager.latest();
  //! [RestoreOptions]
  ls::Checkpoint only_w({{"w", w}});
  only_w.restore(file, {.ignore_unknown_entries = true});  // the optimizer's are left alone
  //! [RestoreOptions]
  std::filesystem::remove_all(folder);
}
