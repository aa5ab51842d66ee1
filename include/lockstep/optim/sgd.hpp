#pragma once

#include <lockstep/optim/optimizer.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// Options of SGD.
struct SGDOptions {
  LearningRate learning_rate = 0.01;
  double weight_decay = 0;      ///< At least 0; added to the gradient, times the variable.
  double global_clip_norm = 0;  ///< Limit of clip_by_global_norm for the summed gradients; 0: no clipping.
};

/// Stochastic gradient descent: w -= learning_rate * (g + weight_decay * w). No slots.
class SGD final : public Optimizer {
 public:
  /// @throws InvalidArgument  an option is out of its range.
  explicit SGD(const SGDOptions& options = {});

 private:
  void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
              const Step& step) const override;
  bool update_parameters(const Step& step, backend::UpdateParameters& parameters) const override;
  const double weight_decay_;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
