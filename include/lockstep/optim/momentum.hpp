#pragma once

#include <lockstep/optim/optimizer.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// Options of Momentum.
struct MomentumOptions {
  LearningRate learning_rate = 0.01;
  double momentum = 0.9;        ///< In [0, 1); 0 is SGD, without a slot.
  bool nesterov = false;        ///< Needs momentum.
  double weight_decay = 0;      ///< At least 0; added to the gradient, times the variable.
  double global_clip_norm = 0;  ///< Limit of clip_by_global_norm for the summed gradients; 0: no clipping.
};

/// Gradient descent with momentum (Sutskever et al. 2013, section 2). Its slot is "velocity": v = momentum *
/// v + g, w -= learning_rate * v, and with Nesterov w -= learning_rate * (g + momentum * v), where g is the
/// gradient + weight_decay * w.
///
/// The step is that of PyTorch's SGD without dampening. The paper and Keras include the rate in the velocity,
/// v = momentum * v - learning_rate * g, w += v, which is the same while the rate does not change.
class Momentum final : public Optimizer {
 public:
  /// @throws InvalidArgument  an option is out of its range.
  explicit Momentum(const MomentumOptions& options = {});

 private:
  void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
              const Step& step) const override;
  bool update_parameters(const Step& step, backend::UpdateParameters& parameters) const override;
  const double momentum_;
  const bool nesterov_;
  const double weight_decay_;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
