#include <algorithm>
#include <cmath>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "digits/digits_data.hpp"
#include "digits/trainer.hpp"
#include "support/test_backend.hpp"

using namespace digits;

namespace {

/// The weights of every replica after an epoch, one replica after the other.
std::vector<std::vector<float>> train_one_epoch(const std::vector<ls::Device>& devices, OptimizerKind kind,
                                                bool graph = false) {
  static const DigitsData data = load_digits(LOCKSTEP_DIGITS_DATA);
  ls::MirroredStrategy strategy(devices);
  Trainer trainer(strategy, data,
                  {.optimizer = kind,
                   .learning_rate = default_learning_rate(kind),
                   .batch_size = 128,
                   .seed = 7,
                   .graph = graph});
  trainer.train_epoch();
  std::vector<std::vector<float>> replicas(devices.size());
  for (const ls::Variable& variable : trainer.model().variables()) {
    const std::vector<ls::Tensor> copies = strategy.local_results(variable);
    for (std::size_t i = 0; i < copies.size(); ++i)
      for (const float weight : copies[i].to_vector<float>()) replicas[i].push_back(weight);
  }
  return replicas;
}

}  // namespace

TEST_CASE("P09 an epoch of train_digits gives the host's weights on GPUs", "[cuda]") {
  const OptimizerKind kind = GENERATE(OptimizerKind::sgd, OptimizerKind::adam);
  const std::vector<ls::Device> gpus = ls::test::TestBackend::devices(ls::test::TestBackend::num_devices());
  std::vector<ls::Device> cpus;
  for (std::size_t i = 0; i < gpus.size(); ++i) cpus.emplace_back(ls::DeviceKind::cpu, static_cast<int>(i));
  const auto on_host = train_one_epoch(cpus, kind), on_gpus = train_one_epoch(gpus, kind);
  for (const auto& copy : on_gpus) REQUIRE(copy == on_gpus[0]);
  float largest = 0;
  for (std::size_t i = 0; i < on_host[0].size(); ++i)
    largest = std::max(largest, std::abs(on_host[0][i] - on_gpus[0][i]));
  // Sums in another order; Adam divides by the gradient's size, which makes rounding of small ones large.
  CHECK(largest < (kind == OptimizerKind::sgd ? 2e-6f : 2e-5f));
}

TEST_CASE("train_digits --graph gives bitwise the weights of the plain loop on GPUs", "[cuda]") {
  const OptimizerKind kind = GENERATE(OptimizerKind::sgd, OptimizerKind::adam);
  const std::vector<ls::Device> gpus = ls::test::TestBackend::devices(ls::test::TestBackend::num_devices());
  REQUIRE(train_one_epoch(gpus, kind, /*graph=*/true) == train_one_epoch(gpus, kind));
}
