// Trains a classifier with an optimizer, a metric and checkpoints. Each step is a function of the strategy,
// which is traced once, and is one launch on each GPU from then on.
#include <cstdint>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <utility>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

namespace {

constexpr std::int64_t kPoints = 256, kBatch = 32;

// Points of a square, and whether they are above a line through it.
auto points() {
  return ls::Dataset::range(kPoints).map([](const ls::Tensor& number) {
    const auto i = number.item<std::int64_t>();
    const float x = static_cast<float>(i % 16) / 8 - 1, y = static_cast<float>(i / 16) / 8 - 1;
    return std::pair(ls::Tensor::from<float>({x, y}, {2}), ls::Tensor::scalar(std::int64_t{x + 2 * y > 0}));
  });
}

// Two logits for each point.
struct Model {
  explicit Model(ls::Strategy& strategy)
      : weights(strategy.make_variable(ls::Tensor::zeros({2, 2}), {.name = "weights"})),
        bias(strategy.make_variable(ls::Tensor::zeros({2}), {.name = "bias"})) {}
  ls::Tensor logits(const ls::Tensor& x) const { return ls::add_row(ls::matmul(x, weights), bias); }

  ls::Variable weights, bias;
};

void train(const std::filesystem::path& folder) {
  //! [make]
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2", "CPU:3"});
  const Model model(strategy);
  ls::optim::Momentum optimizer({.learning_rate = 0.5, .momentum = 0.9});
  const auto scope = strategy.scope();
  ls::metrics::Mean loss("loss");
  //! [make]

  //! [step]
  auto step = strategy.function([&](const ls::Tensor& x, const ls::Tensor& labels) {
    auto [losses, gradient] = ls::softmax_cross_entropy(model.logits(x), labels);
    gradient.div_(kBatch);  // of the global batch: apply_gradients adds up what the replicas have
    optimizer.apply_gradients(
        {{ls::matmul(x, gradient, /*transpose_a=*/true), model.weights}, {ls::sum(gradient, 0), model.bias}});
    loss.update(losses);
  });
  //! [step]

  //! [loop]
  ls::Checkpoint checkpoint({{"weights", model.weights}, {"bias", model.bias}});
  checkpoint.add("optimizer", optimizer);
  ls::CheckpointManager manager(checkpoint, folder, {.max_to_keep = 2});

  const auto batches = strategy.distribute_dataset(points().shuffle(kPoints, /*seed=*/1).batch(kBatch));
  for (int epoch = 1; epoch <= 5; ++epoch) {
    for (const auto& [x, labels] : batches) step(x, labels);
    std::cout << "epoch " << epoch << ": loss " << loss.result().item<double>() << '\n';
    loss.reset();
    manager.save(epoch);
  }
  //! [loop]
}

double trained_accuracy(const std::filesystem::path& folder) {
  //! [restore]
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1"});  // not the four replicas that have saved
  const Model model(strategy);
  ls::Checkpoint checkpoint({{"weights", model.weights}, {"bias", model.bias}});
  ls::CheckpointManager(checkpoint, folder).restore_latest({.ignore_unknown_entries = true});

  const auto scope = strategy.scope();
  ls::metrics::Accuracy accuracy;
  const auto count = [&](const ls::Tensor& x, const ls::Tensor& labels) {
    accuracy.update(labels, model.logits(x));
  };
  for (const auto& [x, labels] : strategy.distribute_dataset(points().batch(kBatch)))
    strategy.run(count, x, labels);
  return accuracy.result().item<double>();
  //! [restore]
}

}  // namespace

int main() {
  const std::filesystem::path folder = "training_loop_checkpoints";
  std::filesystem::remove_all(folder);
  std::cout << std::fixed << std::setprecision(3);
  train(folder);
  const double accuracy = trained_accuracy(folder);
  std::cout << "accuracy of the restored model: " << accuracy << '\n';
  return accuracy > 0.97 ? 0 : 1;
}
