#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/optim/adamw.hpp>
#include <lockstep/update_ops.hpp>

#include "hyper_parameters.hpp"

namespace lockstep::optim {

AdamW::AdamW(const AdamWOptions& options)
    : Optimizer("AdamW", options.learning_rate, options.global_clip_norm, {"first_moment", "second_moment"}),
      weight_decay_(options.weight_decay),
      beta1_(options.beta1),
      beta2_(options.beta2),
      epsilon_(options.epsilon) {
  detail::require_at_least_0("AdamW", "weight_decay", weight_decay_);
  detail::require_fraction("AdamW", "beta1", beta1_);
  detail::require_fraction("AdamW", "beta2", beta2_);
  detail::require_above_0("AdamW", "epsilon", epsilon_);
}

void AdamW::update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                   const Step& step) const {
  adam_update_(variable, gradient, slots[0], slots[1], step.number,
               {.learning_rate = step.learning_rate,
                .beta1 = beta1_,
                .beta2 = beta2_,
                .epsilon = epsilon_,
                .weight_decay = weight_decay_});
}

bool AdamW::update_parameters(const Step& step, backend::UpdateParameters& parameters) const {
  parameters = {.learning_rate = step.learning_rate,
                .weight_decay = weight_decay_,
                .beta1 = beta1_,
                .beta2 = beta2_,
                .epsilon = epsilon_,
                .step = step.number};
  return true;
}

}  // namespace lockstep::optim
