#pragma once

#include <lockstep/optim/optimizer.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// Options of Adam.
struct AdamOptions {
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9;           ///< In [0, 1).
  double beta2 = 0.999;         ///< In [0, 1).
  double epsilon = 1e-8;        ///< Above 0.
  double global_clip_norm = 0;  ///< Limit of clip_by_global_norm for the summed gradients; 0: no clipping.
};

/// Adam (Kingma & Ba 2015, algorithm 1). Its slots are "first_moment" and "second_moment". In step t, counted
/// from 1: m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g^2, w -= learning_rate * m / (1 -
/// beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
///
/// The powers of the betas are rounded to the type of the update (update_ops.hpp), as in Keras. The epsilon
/// is added as in PyTorch. Keras adds its epsilon (default 1e-7) to sqrt(v) before the bias correction (the
/// paper's "epsilon hat").
class Adam final : public Optimizer {
 public:
  /// @throws InvalidArgument  an option is out of its range.
  explicit Adam(const AdamOptions& options = {});

 private:
  void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
              const Step& step) const override;
  bool update_parameters(const Step& step, backend::UpdateParameters& parameters) const override;
  const double beta1_;
  const double beta2_;
  const double epsilon_;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
