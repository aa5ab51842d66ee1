#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "digits_model.hpp"

namespace digits {

enum class OptimizerKind : std::uint8_t { adam, sgd };

/// "Adam", "SGD with momentum".
std::string_view name(OptimizerKind kind);
double default_learning_rate(OptimizerKind kind);

/// Updates a model's variables; keeps its moments on each of their devices.
class Optimizer {
 public:
  Optimizer(ls::Strategy& strategy, const DigitsModel& model, OptimizerKind kind, double learning_rate);

  /// Sums each gradient over the replicas, and steps. In cross-replica context.
  void apply(const DigitsModel::ForVariables<ls::PerReplica<ls::Tensor>>& gradients);

 private:
  ls::Strategy& strategy_;
  DigitsModel::ForVariables<ls::Variable> variables_;
  OptimizerKind kind_;
  double learning_rate_;
  std::int64_t step_ = 0;
  std::vector<ls::Mirrored<ls::Tensor>> first_moments_;   // SGD's velocities
  std::vector<ls::Mirrored<ls::Tensor>> second_moments_;  // of Adam only
};

}  // namespace digits
