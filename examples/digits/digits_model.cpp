#include "digits_model.hpp"

#include <cmath>
#include <random>
#include <vector>

#include "digits_data.hpp"

namespace digits {
namespace {

/// Uniform random weights, with the variance that keeps the scale of signals from layer to layer under ReLU
/// (He et al. 2015).
ls::Tensor random_weights(int num_in, int num_out, std::mt19937_64& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float bound = std::sqrt(6.0f / static_cast<float>(num_in));
  std::vector<float> weights(static_cast<std::size_t>(num_in) * static_cast<std::size_t>(num_out));
  for (float& weight : weights) weight = bound * uniform(random);
  return ls::Tensor::from(weights, {num_in, num_out});
}

ls::Variable make_variable(ls::Strategy& strategy, const ls::Tensor& initial, const char* name) {
  const auto scope = strategy.scope();
  return ls::Variable(initial, {.name = name});
}

DigitsModel::ForVariables<ls::Tensor> initial_values(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const ls::Tensor hidden = random_weights(kNumPixels, DigitsModel::kNumHidden, random);
  const ls::Tensor output = random_weights(DigitsModel::kNumHidden, kNumClasses, random);
  return {hidden, ls::Tensor::zeros({DigitsModel::kNumHidden}), output, ls::Tensor::zeros({kNumClasses})};
}

}  // namespace

DigitsModel::DigitsModel(ls::Strategy& strategy, std::uint64_t seed)
    : DigitsModel(strategy, initial_values(seed)) {}

DigitsModel::DigitsModel(ls::Strategy& strategy, ForVariables<ls::Tensor> initial)
    : variables_{make_variable(strategy, initial[0], "hidden/weights"),
                 make_variable(strategy, initial[1], "hidden/bias"),
                 make_variable(strategy, initial[2], "output/weights"),
                 make_variable(strategy, initial[3], "output/bias")} {}

DigitsModel::Activations DigitsModel::forward(const ls::Tensor& images) const {
  const auto& [hidden_weights, hidden_bias, output_weights, output_bias] = variables_;
  const ls::Tensor hidden = ls::relu(ls::add_row(ls::matmul(images, hidden_weights), hidden_bias));
  return {hidden, ls::add_row(ls::matmul(hidden, output_weights), output_bias)};
}

DigitsModel::ForVariables<ls::Tensor> DigitsModel::gradients(const ls::Tensor& images,
                                                             const Activations& activations,
                                                             const ls::Tensor& logits_gradient) const {
  const ls::Variable& output_weights = variables_[2];
  const ls::Tensor back = ls::matmul(logits_gradient, output_weights, false, /*transpose_b=*/true);
  const ls::Tensor hidden_gradient = ls::relu_gradient(back, activations.hidden);
  return {ls::matmul(images, hidden_gradient, /*transpose_a=*/true), ls::sum(hidden_gradient, 0),
          ls::matmul(activations.hidden, logits_gradient, /*transpose_a=*/true), ls::sum(logits_gradient, 0)};
}

}  // namespace digits
