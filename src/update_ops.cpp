#include <initializer_list>
#include <string_view>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/backend/kernel_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/stream.hpp>
#include <lockstep/update_ops.hpp>

#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "hyper_parameters.hpp"
#include "tensor_checks.hpp"
#include "update_batch.hpp"

namespace lockstep {

namespace {

void require_fits(std::string_view operation, const Tensor& variable, const Tensor& other) {
  detail::require_same_dtype(operation, variable, other);
  detail::require_same_device(operation, variable, other);
  detail::require_same_shape(operation, variable, other);
}

/// @param written  the variable, then its moments.
void require_updatable(std::string_view operation, std::initializer_list<const Tensor*> written,
                       const Tensor& gradient) {
  const Tensor& variable = **written.begin();
  detail::require_floating(operation, variable);
  require_fits(operation, variable, gradient);
  for (const Tensor* const tensor : written) {
    require_fits(operation, variable, *tensor);
    detail::require_writable(operation, *tensor);
    LOCKSTEP_EXPECTS(tensor->is_contiguous(), InvalidArgument, operation, ": ", describe(*tensor),
                     " is a strided view and cannot be updated. Update a contiguous tensor.");
    for (const Tensor* const other : written)
      LOCKSTEP_EXPECTS(other == tensor || !detail::may_overlap(tensor->view(), other->view()),
                       InvalidArgument, operation, ": the variable ", describe(variable),
                       " and its moments share memory. Give each of them its own.");
  }
}

/// The gradient as kernels need it: contiguous, and not overlapping the tensors that they write.
Tensor readable(const Tensor& gradient, std::initializer_list<const Tensor*> written) {
  for (const Tensor* const tensor : written)
    if (detail::may_overlap(tensor->view(), gradient.view())) return gradient.clone();
  return gradient.contiguous();
}

const backend::StepNumbers* traced_numbers() noexcept {
  return static_cast<const backend::StepNumbers*>(detail::TracedUpdate::numbers());
}

}  // namespace

void sgd_update_(Tensor& variable, const Tensor& gradient, Tensor velocity, const SGDUpdateOptions& options) {
  constexpr std::string_view kName = "sgd_update_";
  detail::require_at_least_0(kName, "learning_rate", options.learning_rate);
  detail::require_at_least_0(kName, "weight_decay", options.weight_decay);
  detail::require_fraction(kName, "momentum", options.momentum);
  const bool has_momentum = options.momentum != 0;
  LOCKSTEP_EXPECTS(has_momentum || !options.nesterov, InvalidArgument, kName,
                   ": nesterov without momentum. Set options.momentum too.");
  LOCKSTEP_EXPECTS(has_momentum == velocity.defined(), InvalidArgument, kName, ": momentum is ",
                   options.momentum,
                   velocity.defined() ? ", but there is a velocity" : ", but velocity is empty",
                   ". Pass a velocity with momentum, and only then.");
  Tensor slope;
  if (has_momentum) {
    require_updatable(kName, {&variable, &velocity}, gradient);
    slope = readable(gradient, {&variable, &velocity});
  } else {
    require_updatable(kName, {&variable}, gradient);
    slope = readable(gradient, {&variable});
  }
  if (variable.size() == 0) return;
  const StreamRef stream = current_stream(variable.device());
  detail::UpdateBatch::add({.rule = detail::UpdateBatch::Rule::sgd,
                            .stream = stream,
                            .parameters = {.learning_rate = options.learning_rate,
                                           .momentum = options.momentum,
                                           .nesterov = options.nesterov,
                                           .weight_decay = options.weight_decay,
                                           .numbers = traced_numbers()},
                            .tensors = {variable.view(), slope.view(),
                                        has_momentum ? velocity.view() : TensorView(), TensorView()},
                            .gradient = slope,
                            .first_slot = std::move(velocity),
                            .second_slot = Tensor()});
}

void adam_update_(Tensor& variable, const Tensor& gradient, Tensor first_moment, Tensor second_moment,
                  std::int64_t step, const AdamUpdateOptions& options) {
  constexpr std::string_view kName = "adam_update_";
  detail::require_at_least_0(kName, "learning_rate", options.learning_rate);
  detail::require_at_least_0(kName, "weight_decay", options.weight_decay);
  detail::require_fraction(kName, "beta1", options.beta1);
  detail::require_fraction(kName, "beta2", options.beta2);
  detail::require_above_0(kName, "epsilon", options.epsilon);
  LOCKSTEP_EXPECTS(step >= 1, InvalidArgument, kName, ": step is ", step, ". Steps are counted from 1.");
  require_updatable(kName, {&variable, &first_moment, &second_moment}, gradient);
  const Tensor slope = readable(gradient, {&variable, &first_moment, &second_moment});
  if (variable.size() == 0) return;
  const StreamRef stream = current_stream(variable.device());
  const backend::StepNumbers* const numbers = traced_numbers();
  LOCKSTEP_EXPECTS(numbers != nullptr || !stream.device_backend().is_capturing(stream.handle()), Unsupported,
                   kName, ": ", describe(variable),
                   ": the stream is being captured, and every launch would repeat step ", step,
                   ", with its bias correction. Update after the launch.");
  detail::UpdateBatch::add(
      {.rule = detail::UpdateBatch::Rule::adam,
       .stream = stream,
       .parameters = {.learning_rate = options.learning_rate,
                      .weight_decay = options.weight_decay,
                      .beta1 = options.beta1,
                      .beta2 = options.beta2,
                      .epsilon = options.epsilon,
                      .step = step,
                      .numbers = numbers},
       .tensors = {variable.view(), slope.view(), first_moment.view(), second_moment.view()},
       .gradient = slope,
       .first_slot = std::move(first_moment),
       .second_slot = std::move(second_moment)});
}

}  // namespace lockstep
