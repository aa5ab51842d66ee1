#include <algorithm>
#include <cmath>
#include <numbers>

#include <lockstep/error.hpp>
#include <lockstep/optim/learning_rate.hpp>

#include "detail/expects.hpp"
#include "hyper_parameters.hpp"

namespace lockstep::optim {

LearningRate::LearningRate(double rate) : schedule_([rate](std::int64_t) { return rate; }) {
  detail::require_at_least_0("LearningRate", "the rate", rate);
}

LearningRate LearningRate::piecewise_constant(std::vector<std::int64_t> boundaries,
                                              std::vector<double> values) {
  constexpr std::string_view kName = "LearningRate::piecewise_constant";
  LOCKSTEP_EXPECTS(values.size() == boundaries.size() + 1, InvalidArgument, kName, ": ", values.size(),
                   " values for ", boundaries.size(), " boundaries. Pass one value more than boundaries.");
  std::int64_t before = 0;
  for (const std::int64_t boundary : boundaries) {
    LOCKSTEP_EXPECTS(boundary > before, InvalidArgument, kName, ": the boundary ", boundary, " after ",
                     before, " leaves no steps between them. Pass boundaries above 0, in rising order.");
    before = boundary;
  }
  for (const double value : values) detail::require_at_least_0(kName, "a value", value);
  return [boundaries = std::move(boundaries), values = std::move(values)](std::int64_t step) {
    const auto passed = std::upper_bound(boundaries.begin(), boundaries.end(), step) - boundaries.begin();
    return values[static_cast<std::size_t>(passed)];
  };
}

LearningRate LearningRate::step_decay(const StepDecayOptions& options) {
  constexpr std::string_view kName = "LearningRate::step_decay";
  detail::require_at_least_0(kName, "initial", options.initial);
  detail::require_above_0(kName, "factor", options.factor);
  LOCKSTEP_EXPECTS(options.every >= 1, InvalidArgument, kName, ": every is ", options.every,
                   ". It must be at least 1 step.");
  return [options](std::int64_t step) {
    return options.initial * std::pow(options.factor, static_cast<double>(step / options.every));
  };
}

LearningRate LearningRate::cosine_decay(const CosineDecayOptions& options) {
  constexpr std::string_view kName = "LearningRate::cosine_decay";
  detail::require_at_least_0(kName, "peak", options.peak);
  detail::require_at_least_0(kName, "floor", options.floor);
  LOCKSTEP_EXPECTS(options.floor <= options.peak, InvalidArgument, kName, ": floor is ", options.floor,
                   ", above the peak of ", options.peak, ". It must be in [0, peak].");
  LOCKSTEP_EXPECTS(options.num_steps >= 1, InvalidArgument, kName, ": num_steps is ", options.num_steps,
                   ". It must be at least 1.");
  LOCKSTEP_EXPECTS(options.num_warm_up_steps >= 0 && options.num_warm_up_steps <= options.num_steps,
                   InvalidArgument, kName, ": num_warm_up_steps is ", options.num_warm_up_steps, " of ",
                   options.num_steps, " steps. It must be in [0, num_steps].");
  return [options](std::int64_t step) {
    const auto [peak, num_steps, warm_up, floor] = options;
    if (step >= num_steps) return floor;
    if (step < warm_up) return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
    const double t = static_cast<double>(step - warm_up) / static_cast<double>(num_steps - warm_up);
    return floor + (peak - floor) * (1 + std::cos(std::numbers::pi * t)) / 2;
  };
}

double LearningRate::at(std::int64_t step) const {
  LOCKSTEP_EXPECTS(step >= 0, InvalidArgument, "LearningRate::at: step ", step,
                   " is negative. Steps are counted from 0.");
  LOCKSTEP_EXPECTS(schedule_, InvalidArgument,
                   "LearningRate::at: the schedule is an empty function. Pass one that gives a rate.");
  const double rate = schedule_(step);
  LOCKSTEP_EXPECTS(std::isfinite(rate) && rate >= 0, InvalidArgument, "LearningRate::at: the rate of step ",
                   step, " is ", rate, ". A schedule must give a number of at least 0.");
  return rate;
}

}  // namespace lockstep::optim
