#pragma once

#include <concepts>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/detail/shared_function.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// A schedule that falls by a factor.
struct StepDecayOptions {
  double initial = 0.1;    ///< The rate of the first steps; at least 0.
  std::int64_t every = 1;  ///< Steps between falls; at least 1.
  double factor = 0.1;     ///< By which each fall multiplies; above 0.
};

/// A schedule that rises along a line and falls along half a cosine.
struct CosineDecayOptions {
  double peak = 0.1;                   ///< The rate after the warm-up; at least 0.
  std::int64_t num_steps = 1;          ///< All steps, the warm-up's included; at least 1.
  std::int64_t num_warm_up_steps = 0;  ///< In [0, num_steps].
  double floor = 0;                    ///< The rate from num_steps on; in [0, peak].
};

/// A learning rate as a function of the step: of how many steps were made before, so that the first one is
/// step 0. Evaluated on the host, once for each step, so that all replicas use one value.
///
/// A value: copies share the function given. Thread-safe as far as that is.
class LearningRate {
 public:
  /// The same rate in every step. @throws InvalidArgument  it is not a number of at least 0.
  LearningRate(double rate);
  /// A schedule of the caller's, `rate = schedule(step)`. It should depend on the step alone: what it gives
  /// is checked when it is used.
  template <class F>
  requires std::is_invocable_r_v<double, const F&, std::int64_t> LearningRate(F schedule)
      : schedule_(std::move(schedule)) {}

  [[nodiscard]] static LearningRate constant(double rate) { return rate; }
  /// values[i] while boundaries[i - 1] <= step < boundaries[i]. As PyTorch's MultiStepLR counts; Keras'
  /// PiecewiseConstantDecay still uses values[i] in step boundaries[i].
  /// @throws InvalidArgument  boundaries are not above 0 and rising, there is not one value more than
  /// boundaries, or a value is not a number of at least 0.
  [[nodiscard]] static LearningRate piecewise_constant(std::vector<std::int64_t> boundaries,
                                                       std::vector<double> values);
  /// initial * factor ^ floor(step / every).
  /// @throws InvalidArgument  an option out of its range.
  [[nodiscard]] static LearningRate step_decay(const StepDecayOptions& options);
  /// With w = num_warm_up_steps: peak * (step + 1) / w in the warm-up (linear, as Goyal et al. 2017, section
  /// 2.2), which so ends at the peak; then floor + (peak - floor) * (1 + cos(pi * t)) / 2 with
  /// t = (step - w) / (num_steps - w), the first half-period of Loshchilov & Hutter 2017 (SGDR, equation 5);
  /// floor from step num_steps on.
  /// @throws InvalidArgument  an option out of its range.
  [[nodiscard]] static LearningRate cosine_decay(const CosineDecayOptions& options);

  /// The rate of a step. @throws InvalidArgument  step is negative, or a schedule of the caller's gives no
  /// number of at least 0; names the step.
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  detail::SharedFunction<double(std::int64_t)> schedule_;  // called as const
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
