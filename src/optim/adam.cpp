#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/update_ops.hpp>

#include "hyper_parameters.hpp"

namespace lockstep::optim {

Adam::Adam(const AdamOptions& options)
    : Optimizer("Adam", options.learning_rate, options.global_clip_norm, {"first_moment", "second_moment"}),
      beta1_(options.beta1),
      beta2_(options.beta2),
      epsilon_(options.epsilon) {
  detail::require_fraction("Adam", "beta1", beta1_);
  detail::require_fraction("Adam", "beta2", beta2_);
  detail::require_above_0("Adam", "epsilon", epsilon_);
}

void Adam::update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                  const Step& step) const {
  adam_update_(variable, gradient, slots[0], slots[1], step.number,
               {.learning_rate = step.learning_rate, .beta1 = beta1_, .beta2 = beta2_, .epsilon = epsilon_});
}

bool Adam::update_parameters(const Step& step, backend::UpdateParameters& parameters) const {
  parameters = {.learning_rate = step.learning_rate,
                .beta1 = beta1_,
                .beta2 = beta2_,
                .epsilon = epsilon_,
                .step = step.number};
  return true;
}

}  // namespace lockstep::optim
