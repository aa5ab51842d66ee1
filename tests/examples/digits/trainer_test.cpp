#include "digits/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "digits/digits_data.hpp"
#include "support/temporary_directory.hpp"

using namespace digits;

namespace {

std::vector<ls::Device> host_devices(int n) {
  std::vector<ls::Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(ls::DeviceKind::cpu, i);
  return devices;
}

const DigitsData& data() {
  static const DigitsData loaded = load_digits(LOCKSTEP_DIGITS_DATA);
  return loaded;
}

TrainerOptions options_of(OptimizerKind kind) {
  return {.optimizer = kind, .learning_rate = default_learning_rate(kind), .batch_size = 64, .seed = 7};
}

/// All variables of all replicas, one replica after the other.
std::vector<std::vector<float>> weights(ls::Strategy& strategy, const Trainer& trainer) {
  std::vector<std::vector<float>> replicas(static_cast<std::size_t>(strategy.num_replicas_in_sync()));
  for (const ls::Variable& variable : trainer.model().variables()) {
    const std::vector<ls::Tensor> copies = strategy.local_results(variable);
    for (std::size_t i = 0; i < copies.size(); ++i)
      for (const float weight : copies[i].to_vector<float>()) replicas[i].push_back(weight);
  }
  return replicas;
}

struct Epoch {
  std::vector<std::vector<float>> weights;
  Score training, test;
};

Epoch train_one_epoch(int num_replicas, const TrainerOptions& options) {
  ls::MirroredStrategy strategy(host_devices(num_replicas));
  Trainer trainer(strategy, data(), options);
  const Score training = trainer.train_epoch(), test = trainer.evaluate();
  return {weights(strategy, trainer), training, test};
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("P09 an epoch of train_digits gives the same weights with 1, 2, 3 and 4 replicas", "[examples]") {
  const OptimizerKind kind = GENERATE(OptimizerKind::sgd, OptimizerKind::adam);
  CAPTURE(name(kind));
  const Epoch one = train_one_epoch(1, options_of(kind));
  REQUIRE(one.weights[0].size() == 64 * 256 + 256 + 256 * 10 + 10);
  for (const int num_replicas : {2, 3, 4}) {
    CAPTURE(num_replicas);
    const Epoch several = train_one_epoch(num_replicas, options_of(kind));
    REQUIRE(several.weights.size() == static_cast<std::size_t>(num_replicas));
    for (const auto& copy : several.weights) CHECK(copy == several.weights[0]);
    // Sums of 64 rows in another order; Adam divides by the gradient's size, which makes rounding of small
    // ones large.
    CHECK(largest_difference(several.weights[0], one.weights[0]) <
          (kind == OptimizerKind::sgd ? 2e-6f : 2e-5f));
    CHECK(several.training.num_rows == 1438);
    CHECK(several.test.num_rows == 359);
    CHECK(std::abs(several.training.loss - one.training.loss) < 1e-5);
  }
}

TEST_CASE("what train_digits learns depends on the seed", "[examples]") {
  TrainerOptions options = options_of(OptimizerKind::sgd);
  const Epoch first = train_one_epoch(2, options);
  CHECK(train_one_epoch(2, options).weights == first.weights);
  options.seed = 8;
  CHECK(largest_difference(train_one_epoch(2, options).weights[0], first.weights[0]) > 0.01f);
}

TEST_CASE("training that goes on from a checkpoint, on other replicas, ends with the same weights",
          "[examples]") {
  const OptimizerKind kind = GENERATE(OptimizerKind::sgd, OptimizerKind::adam);
  constexpr int kNumEpochs = 3;
  const ls::test::TemporaryDirectory directory;
  const auto file = [&](int epoch) { return directory.path() / (std::to_string(epoch) + ".safetensors"); };
  std::vector<float> uninterrupted;
  {
    ls::MirroredStrategy strategy(host_devices(2));
    Trainer trainer(strategy, data(), options_of(kind));
    for (int epoch = 1; epoch <= kNumEpochs; ++epoch) {
      trainer.train_epoch();
      trainer.checkpoint().save(file(epoch));
    }
    uninterrupted = weights(strategy, trainer)[0];
  }
  for (const int num_replicas : {1, 3, 4}) {
    for (int interrupted = 1; interrupted <= kNumEpochs; ++interrupted) {
      CAPTURE(name(kind), num_replicas, interrupted);
      ls::MirroredStrategy strategy(host_devices(num_replicas));
      Trainer trainer(strategy, data(), options_of(kind));
      trainer.checkpoint().restore(file(interrupted));
      REQUIRE(trainer.num_epochs() == interrupted);
      while (trainer.num_epochs() < kNumEpochs) trainer.train_epoch();
      // Rounding, as in one epoch, for two more of them.
      CHECK(largest_difference(weights(strategy, trainer)[0], uninterrupted) <
            (kind == OptimizerKind::sgd ? 2e-5f : 2e-4f));
    }
  }
}

TEST_CASE("training that goes on within an epoch ends with bitwise the same weights", "[examples]") {
  const OptimizerKind kind = GENERATE(OptimizerKind::sgd, OptimizerKind::adam);
  constexpr std::int64_t kStepsPerEpoch = 23, kInterrupted = kStepsPerEpoch + 7;
  const ls::test::TemporaryDirectory directory;
  const auto file = directory / "7.safetensors";
  std::vector<std::vector<float>> uninterrupted;
  {
    ls::MirroredStrategy strategy(host_devices(2));
    Trainer trainer(strategy, data(), options_of(kind));
    const auto save = [&](std::int64_t) {
      if (trainer.num_steps() == kInterrupted) trainer.checkpoint().save(file);
    };
    for (int epoch = 0; epoch < 3; ++epoch) trainer.train_epoch(save);
    uninterrupted = weights(strategy, trainer);
  }
  for (const int num_replicas : {1, 2, 4}) {
    CAPTURE(name(kind), num_replicas);
    ls::MirroredStrategy strategy(host_devices(num_replicas));
    Trainer trainer(strategy, data(), options_of(kind));
    trainer.checkpoint().restore(file);
    REQUIRE(trainer.num_epochs() == 1);
    REQUIRE(trainer.num_steps() == kInterrupted);
    CHECK(trainer.train_epoch().num_rows == 1438 - 7 * 64);
    trainer.train_epoch();
    CHECK(trainer.num_steps() == 3 * kStepsPerEpoch);
    const auto resumed = weights(strategy, trainer);
    if (num_replicas == 2)
      CHECK(resumed == uninterrupted);
    else  // rounding
      CHECK(largest_difference(resumed[0], uninterrupted[0]) < (kind == OptimizerKind::sgd ? 2e-5f : 2e-4f));
  }
}

TEST_CASE("both optimizers read 96 % of the digits after thirty epochs", "[examples]") {
  const OptimizerKind kind = GENERATE(OptimizerKind::sgd, OptimizerKind::adam);
  CAPTURE(name(kind));
  ls::MirroredStrategy strategy(host_devices(1));
  Trainer trainer(strategy, data(), options_of(kind));
  std::vector<double> losses;
  for (int epoch = 0; epoch < 30; ++epoch) losses.push_back(trainer.train_epoch().loss);
  CHECK(losses.back() < 0.2 * losses.front());
  CHECK(trainer.evaluate().accuracy() >= 0.96);
}

TEST_CASE("training takes batches that leave replicas without rows", "[examples]") {
  TrainerOptions options = options_of(OptimizerKind::sgd);
  options.batch_size = 1437;  // the second batch has one row
  const Epoch one = train_one_epoch(1, options);
  const Epoch four = train_one_epoch(4, options);
  CHECK(four.training.num_rows == 1438);
  CHECK(largest_difference(four.weights[0], one.weights[0]) < 2e-6f);
}

TEST_CASE("training reports how far an epoch is", "[examples]") {
  ls::MirroredStrategy strategy(host_devices(2));
  TrainerOptions options = options_of(OptimizerKind::sgd);
  options.batch_size = 500;
  Trainer trainer(strategy, data(), options);
  std::vector<std::int64_t> seen;
  trainer.train_epoch([&](std::int64_t num_rows) { seen.push_back(num_rows); });
  CHECK(seen == std::vector<std::int64_t>{500, 1000, 1438});
}

TEST_CASE("P09 one step of a linear model on 12 rows is the same with 1, 2, 4 and 5 replicas", "[examples]") {
  const ls::Tensor x = ls::Tensor::from<float>(
      {0.3f, -1.2f, 0.7f, 1.9f, -0.4f, 0.1f, 2.2f, -0.9f, 1.1f, 0.6f, -1.7f, 0.8f}, {12});
  const ls::Tensor y = x * 2.5f - 0.75f;
  const auto weights_after_step = [&](int num_replicas) {
    ls::MirroredStrategy strategy(host_devices(num_replicas));
    const auto scope = strategy.scope();
    ls::Variable slope(ls::Tensor::scalar(0.5f)), offset(ls::Tensor::scalar(0.25f));
    std::int64_t num_rows = 0;
    for (const auto& [inputs, targets] :
         strategy.distribute_dataset(ls::Dataset::from_tensor_slices(x, y).batch(12))) {
      const auto step = [&](const ls::Tensor& input, const ls::Tensor& target) {
        const ls::Tensor error = input * slope.value() + offset.value() - target;
        return std::pair(error * input * 2, error * 2);
      };
      const auto [by_slope, by_offset] =
          strategy.reduce(ls::ReduceOp::mean, strategy.run(step, inputs, targets), 0);
      slope.assign_sub(by_slope * 0.1);
      offset.assign_sub(by_offset * 0.1);
      for (const ls::Tensor& part : inputs) num_rows += part.size();
    }
    CHECK(num_rows == 12);
    return std::vector<float>{slope.value().item<float>(), offset.value().item<float>()};
  };

  // The same step in double precision.
  double by_slope = 0, by_offset = 0;
  const std::vector<float> inputs = x.to_vector<float>(), targets = y.to_vector<float>();
  for (std::size_t row = 0; row < 12; ++row) {
    const double error = inputs[row] * 0.5 + 0.25 - targets[row];
    by_slope += error * inputs[row] * 2 / 12;
    by_offset += error * 2 / 12;
  }
  for (const int num_replicas : {1, 2, 4, 5}) {  // five: 3, 3, 3, 3 and no rows
    CAPTURE(num_replicas);
    const std::vector<float> stepped = weights_after_step(num_replicas);
    CHECK(std::abs(stepped[0] - (0.5 - 0.1 * by_slope)) < 1e-6);
    CHECK(std::abs(stepped[1] - (0.25 - 0.1 * by_offset)) < 1e-6);
  }
}

TEST_CASE("traced steps give bitwise the weights of the plain loop", "[examples]") {
  TrainerOptions options = options_of(GENERATE(OptimizerKind::sgd, OptimizerKind::adam));
  const Epoch plain = train_one_epoch(3, options);
  options.graph = true;
  const Epoch traced = train_one_epoch(3, options);
  CHECK(traced.weights == plain.weights);
  CHECK(traced.training.loss == plain.training.loss);
  CHECK(traced.test.num_correct == plain.test.num_correct);
}
