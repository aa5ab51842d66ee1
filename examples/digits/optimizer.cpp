#include "optimizer.hpp"

namespace digits {

std::string_view name(OptimizerKind kind) {
  return kind == OptimizerKind::adam ? "Adam" : "SGD with momentum";
}

double default_learning_rate(OptimizerKind kind) { return kind == OptimizerKind::adam ? 0.005 : 0.1; }

std::unique_ptr<ls::optim::Optimizer> make_optimizer(OptimizerKind kind, double learning_rate) {
  if (kind == OptimizerKind::adam)
    return std::make_unique<ls::optim::Adam>(ls::optim::AdamOptions{.learning_rate = learning_rate});
  return std::make_unique<ls::optim::Momentum>(
      ls::optim::MomentumOptions{.learning_rate = learning_rate, .momentum = 0.9});
}

}  // namespace digits
