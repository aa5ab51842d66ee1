#pragma once

#include <cstdint>

#include <lockstep/tensor.hpp>

#pragma GCC visibility push(default)

/// Optimizer steps: each updates one tensor and its moments in place, in one pass over the memory, enqueued
/// on the tensor's device's current stream. For a variable, call them in `extended().update`.
///
/// All tensors have one floating-point dtype, one shape and one device. Tensors that are written are
/// contiguous and do not overlap each other; the gradient may be any view.
/// @throws InvalidArgument  a tensor breaks these rules, or a hyper-parameter is out of its range; nothing
/// was written.
namespace lockstep {

/// Options of one step; optim::SGDOptions and optim::MomentumOptions are those of optimizers.
struct SGDUpdateOptions {
  double learning_rate = 0.01;  ///< At least 0.
  double momentum = 0;          ///< In [0, 1).
  bool nesterov = false;        ///< Needs momentum.
  double weight_decay = 0;      ///< At least 0; added to the gradient, times the variable.
};

/// Options of one step; optim::AdamOptions and optim::AdamWOptions are those of optimizers.
struct AdamUpdateOptions {
  double learning_rate = 0.001;  ///< At least 0.
  double beta1 = 0.9;            ///< In [0, 1).
  double beta2 = 0.999;          ///< In [0, 1).
  double epsilon = 1e-8;         ///< Above 0; added to the root of the second moment.
  double weight_decay = 0;       ///< At least 0; decoupled (AdamW).
};

/// Stochastic gradient descent: velocity := momentum velocity + g, variable -= learning_rate velocity; with
/// Nesterov, variable -= learning_rate (g + momentum velocity); g = gradient + weight_decay variable.
///
/// @param velocity  zeros before the first step; an empty Tensor without momentum.
void sgd_update_(Tensor& variable, const Tensor& gradient, Tensor velocity,
                 const SGDUpdateOptions& options = {});

/// Adam (Kingma & Ba 2015, algorithm 1), with decoupled weight decay (Loshchilov & Hutter 2019). The powers
/// of the betas are rounded to the type in which the update is computed (double for float64, else float), as
/// in TensorFlow.
///
/// @param first_moment, second_moment  zeros before the first step.
/// @param step  counted from 1; corrects the bias of moments that began as zeros.
/// @throws Unsupported  the stream is being captured: every launch would repeat the step.
void adam_update_(Tensor& variable, const Tensor& gradient, Tensor first_moment, Tensor second_moment,
                  std::int64_t step, const AdamUpdateOptions& options = {});

}  // namespace lockstep

#pragma GCC visibility pop
