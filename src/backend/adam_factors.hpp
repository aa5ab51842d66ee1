#pragma once

#include <cmath>
#include <cstdint>

#include <lockstep/backend/kernel_backend.hpp>

namespace lockstep::detail {

/// 1 - beta^step, with the power computed in C, as in TensorFlow; if beta rounds to 1 in C, in double.
template <class C>
C bias_correction(double beta, std::int64_t step) {
  const C power = std::pow(static_cast<C>(beta), static_cast<C>(step));
  return power < 1 ? 1 - power : static_cast<C>(1 - std::pow(beta, static_cast<double>(step)));
}

/// The factors and divisors of a step of Adam, in the type in which it is computed.
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

/// The numbers of a step, in both types, with the bits that AdamFactors has.
inline backend::StepNumbers step_numbers(const backend::UpdateParameters& parameters) {
  return {.step = parameters.step,
          .learning_rate = parameters.learning_rate,
          .correction1_f32 = bias_correction<float>(parameters.beta1, parameters.step),
          .correction2_f32 = bias_correction<float>(parameters.beta2, parameters.step),
          .correction1_f64 = bias_correction<double>(parameters.beta1, parameters.step),
          .correction2_f64 = bias_correction<double>(parameters.beta2, parameters.step)};
}

}  // namespace lockstep::detail
