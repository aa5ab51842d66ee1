// Fits y = 2 x - 1 by gradient descent; each replica works on its part of every batch.
#include <cmath>
#include <iostream>
#include <optional>
#include <utility>

#include <lockstep/lockstep.hpp>

namespace ls = lockstep;

int main() {
  ls::MirroredStrategy strategy({"CPU:0", "CPU:1", "CPU:2", "CPU:3"});
  std::optional<ls::Variable> slope, offset;
  {
    const auto scope = strategy.scope();
    slope.emplace(ls::Tensor::scalar(0.0f), ls::VariableOptions{.name = "slope"});
    offset.emplace(ls::Tensor::scalar(0.0f), ls::VariableOptions{.name = "offset"});
  }

  const ls::Tensor x = ls::Tensor::arange(-1.0f, 1.0f, 1.0f / 32);
  const ls::Tensor y = x * 2 - 1;
  const auto batches = strategy.distribute_dataset(
      ls::Dataset::from_tensor_slices(x, y).shuffle(x.size(), /*seed=*/1).batch(16));

  const auto step = [&](const ls::Tensor& inputs, const ls::Tensor& targets) {
    const ls::Tensor error = inputs * slope->value() + offset->value() - targets;
    return std::pair(error * inputs * 2, error * 2);  // gradients of the squared error, by row
  };
  for (int epoch = 1; epoch <= 50; ++epoch) {
    for (const auto& [inputs, targets] : batches) {
      // The mean along axis 0 includes the rows of all replicas.
      const auto [by_slope, by_offset] =
          strategy.reduce(ls::ReduceOp::mean, strategy.run(step, inputs, targets), 0);
      slope->assign_sub(by_slope * 0.2);
      offset->assign_sub(by_offset * 0.2);
    }
  }

  const float a = slope->value().item<float>(), b = offset->value().item<float>();
  std::cout << "y = " << a << " x + " << b << '\n';
  const bool right = std::abs(a - 2) < 1e-3f && std::abs(b + 1) < 1e-3f;
  return right ? 0 : 1;
}
