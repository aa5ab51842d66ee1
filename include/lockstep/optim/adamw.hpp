#pragma once

#include <lockstep/optim/optimizer.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// Options of AdamW.
struct AdamWOptions {
  LearningRate learning_rate = 0.001;
  double weight_decay = 0.01;  ///< At least 0; multiplied by the learning rate and not added to the gradient.
  double beta1 = 0.9;          ///< In [0, 1).
  double beta2 = 0.999;        ///< In [0, 1).
  double epsilon = 1e-8;       ///< Above 0.
  double global_clip_norm = 0;  ///< Limit of clip_by_global_norm for the summed gradients; 0: no clipping.
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2): Adam's step and, separately, w
/// -= learning_rate * weight_decay * w. The paper's schedule multiplier is part of the learning rate, as in
/// PyTorch. The slots are Adam's.
class AdamW final : public Optimizer {
 public:
  /// @throws InvalidArgument  an option is out of its range.
  explicit AdamW(const AdamWOptions& options = {});

 private:
  void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
              const Step& step) const override;
  bool update_parameters(const Step& step, backend::UpdateParameters& parameters) const override;
  const double weight_decay_;
  const double beta1_;
  const double beta2_;
  const double epsilon_;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
