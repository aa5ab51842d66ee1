#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/update_ops.hpp>

#include "hyper_parameters.hpp"

namespace lockstep::optim {

SGD::SGD(const SGDOptions& options)
    : Optimizer("SGD", options.learning_rate, options.global_clip_norm, {}),
      weight_decay_(options.weight_decay) {
  detail::require_at_least_0("SGD", "weight_decay", weight_decay_);
}

void SGD::update(Tensor& variable, const Tensor& gradient, std::span<const Tensor>, const Step& step) const {
  sgd_update_(variable, gradient, {}, {.learning_rate = step.learning_rate, .weight_decay = weight_decay_});
}

bool SGD::update_parameters(const Step& step, backend::UpdateParameters& parameters) const {
  parameters = {.learning_rate = step.learning_rate, .weight_decay = weight_decay_, .step = step.number};
  return true;
}

}  // namespace lockstep::optim
