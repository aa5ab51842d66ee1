#include "optimizer.hpp"

#include <utility>

namespace digits {

std::string_view name(OptimizerKind kind) {
  return kind == OptimizerKind::adam ? "Adam" : "SGD with momentum";
}

double default_learning_rate(OptimizerKind kind) { return kind == OptimizerKind::adam ? 0.005 : 0.1; }

Optimizer::Optimizer(ls::Strategy& strategy, const DigitsModel& model, OptimizerKind kind,
                     double learning_rate)
    : strategy_(strategy), variables_(model.variables()), kind_(kind), learning_rate_(learning_rate) {
  const auto zeros_like = [](const ls::Tensor& variable) { return ls::Tensor::zeros(variable.shape()); };
  for (const ls::Variable& variable : variables_) {
    first_moments_.push_back(strategy_.extended().update(variable, zeros_like));
    if (kind_ == OptimizerKind::adam)
      second_moments_.push_back(strategy_.extended().update(variable, zeros_like));
  }
}

void Optimizer::apply(const DigitsModel::ForVariables<ls::PerReplica<ls::Tensor>>& gradients) {
  std::vector<std::pair<ls::ReduceValue, ls::Destination>> pairs;
  for (std::size_t i = 0; i < variables_.size(); ++i) pairs.emplace_back(gradients[i], variables_[i]);
  const std::vector<ls::Mirrored<ls::Tensor>> sums =
      strategy_.extended().batch_reduce_to(ls::ReduceOp::sum, pairs);

  ++step_;
  const auto adam = [this](ls::Tensor& variable, const ls::Tensor& gradient, const ls::Tensor& first,
                           const ls::Tensor& second) {
    ls::adam_update_(variable, gradient, first, second, step_, {.learning_rate = learning_rate_});
  };
  const auto sgd = [this](ls::Tensor& variable, const ls::Tensor& gradient, const ls::Tensor& velocity) {
    ls::sgd_update_(variable, gradient, velocity, {.learning_rate = learning_rate_, .momentum = 0.9});
  };
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    if (kind_ == OptimizerKind::adam)
      strategy_.extended().update(variables_[i], adam, sums[i], first_moments_[i], second_moments_[i]);
    else
      strategy_.extended().update(variables_[i], sgd, sums[i], first_moments_[i]);
  }
}

}  // namespace digits
