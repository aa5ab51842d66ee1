#pragma once

#include <cmath>
#include <cstdint>

#include <lockstep/backend/kernel_backend.hpp>

namespace lockstep::detail {

/// 1 - beta^step, the power being one of C's, as in TensorFlow; of a beta that is 1 in C, double's.
template <class C>
C bias_correction(double beta, std::int64_t step) {
  const C power = std::pow(static_cast<C>(beta), static_cast<C>(step));
  return power < 1 ? 1 - power : static_cast<C>(1 - std::pow(beta, static_cast<double>(step)));
}

/// What a step of Adam multiplies and divides by, in the type that it is computed in.
template <class C>
struct AdamFactors {
  explicit AdamFactors(const backend::UpdateParameters& parameters)
      : rate(static_cast<C>(parameters.learning_rate)),
        decay(static_cast<C>(parameters.weight_decay)),
        beta1(static_cast<C>(parameters.beta1)),
        beta2(static_cast<C>(parameters.beta2)),
        one_less_beta1(static_cast<C>(1 - parameters.beta1)),
        one_less_beta2(static_cast<C>(1 - parameters.beta2)),
        correction1(bias_correction<C>(parameters.beta1, parameters.step)),
        correction2(bias_correction<C>(parameters.beta2, parameters.step)),
        epsilon(static_cast<C>(parameters.epsilon)) {}

  C rate, decay, beta1, beta2, one_less_beta1, one_less_beta2, correction1, correction2, epsilon;
};

}  // namespace lockstep::detail
