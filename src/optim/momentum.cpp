#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/optim/momentum.hpp>
#include <lockstep/update_ops.hpp>

#include "detail/expects.hpp"
#include "hyper_parameters.hpp"

namespace lockstep::optim {

Momentum::Momentum(const MomentumOptions& options)
    : Optimizer("Momentum", options.learning_rate, options.global_clip_norm,
                options.momentum == 0 ? std::vector<std::string>() : std::vector<std::string>{"velocity"}),
      momentum_(options.momentum),
      nesterov_(options.nesterov),
      weight_decay_(options.weight_decay) {
  detail::require_fraction("Momentum", "momentum", momentum_);
  detail::require_at_least_0("Momentum", "weight_decay", weight_decay_);
  LOCKSTEP_EXPECTS(momentum_ != 0 || !nesterov_, InvalidArgument,
                   "Momentum: nesterov without momentum. Set options.momentum too.");
}

void Momentum::update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                      const Step& step) const {
  sgd_update_(variable, gradient, slots.empty() ? Tensor() : slots[0],
              {.learning_rate = step.learning_rate,
               .momentum = momentum_,
               .nesterov = nesterov_,
               .weight_decay = weight_decay_});
}

bool Momentum::update_parameters(const Step& step, backend::UpdateParameters& parameters) const {
  parameters = {.learning_rate = step.learning_rate,
                .momentum = momentum_,
                .nesterov = nesterov_,
                .weight_decay = weight_decay_,
                .step = step.number};
  return true;
}

}  // namespace lockstep::optim
