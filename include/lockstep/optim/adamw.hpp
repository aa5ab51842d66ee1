#pragma once

#include <lockstep/optim/optimizer.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

struct AdamWOptions {
  LearningRate learning_rate = 0.001;
  double weight_decay = 0.01;   ///< At least 0; times the learning rate, and apart from the gradient.
  double beta1 = 0.9;           ///< In [0, 1).
  double beta2 = 0.999;         ///< In [0, 1).
  double epsilon = 1e-8;        ///< Above 0.
  double global_clip_norm = 0;  ///< clip_by_global_norm for the summed gradients; 0: none.
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2): Adam's step, and
/// w -= learning_rate * weight_decay * w beside it. The paper's schedule multiplier is in the learning rate,
/// as in PyTorch. Slots as Adam's.
class AdamW final : public Optimizer {
 public:
  /// @throws InvalidArgument  an option out of its range.
  explicit AdamW(const AdamWOptions& options = {});

 private:
  void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
              const Step& step) const override;
  const double weight_decay_;
  const double beta1_;
  const double beta2_;
  const double epsilon_;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
