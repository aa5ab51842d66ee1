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
  double factor = 0.1;     ///< Each fall multiplies the rate by it; above 0.
};

/// A schedule that rises along a line and falls along half a cosine.
struct CosineDecayOptions {
  double peak = 0.1;                   ///< The rate after the warm-up; at least 0.
  std::int64_t num_steps = 1;          ///< All steps, the warm-up's included; at least 1.
  std::int64_t num_warm_up_steps = 0;  ///< In [0, num_steps].
  double floor = 0;                    ///< The rate from num_steps on; in [0, peak].
};

/// A learning rate as a function of the step number, which is the number of steps made before: the first step
/// is step 0. It is evaluated on the host, once for each step, so that all replicas use one value.
///
/// A value: copies share the given function. Thread-safe if that function is.
class LearningRate {
 public:
  /// The same rate in every step. @throws InvalidArgument  the rate is not a number of at least 0.
  LearningRate(double rate);
  /// The caller's schedule, `rate = schedule(step)`. It should depend only on the step; its results are
  /// checked when they are used.
  template <class F>
  requires std::is_invocable_r_v<double, const F&, std::int64_t> LearningRate(F schedule)
      : schedule_(std::move(schedule)) {}

  [[nodiscard]] static LearningRate constant(double rate) { return rate; }
  /// values[i] while boundaries[i - 1] <= step < boundaries[i]. PyTorch's MultiStepLR counts in the same way;
  /// Keras' PiecewiseConstantDecay still uses values[i] in step boundaries[i].
  /// @throws InvalidArgument  the boundaries are not positive and rising, the number of values is not that of
  /// the boundaries plus 1, or a value is not a number of at least 0.
  [[nodiscard]] static LearningRate piecewise_constant(std::vector<std::int64_t> boundaries,
                                                       std::vector<double> values);
  /// initial * factor ^ floor(step / every).
  /// @throws InvalidArgument  an option is out of its range.
  [[nodiscard]] static LearningRate step_decay(const StepDecayOptions& options);
  /// With w = num_warm_up_steps, the warm-up gives peak * (step + 1) / w (linear, as in Goyal et al. 2017,
  /// section 2.2) and so ends at the peak. Then the rate is floor + (peak - floor) * (1 + cos(pi * t)) / 2
  /// with t = (step - w) / (num_steps - w), the first half-period of Loshchilov & Hutter 2017 (SGDR, equation
  /// 5), and floor from step num_steps on.
  /// @throws InvalidArgument  an option is out of its range.
  [[nodiscard]] static LearningRate cosine_decay(const CosineDecayOptions& options);

  /// The rate of a step. @throws InvalidArgument  step is negative, or the caller's schedule does not give a
  /// number of at least 0; names the step.
  [[nodiscard]] double at(std::int64_t step) const;

 private:
  detail::SharedFunction<double(std::int64_t)> schedule_;  // called as const
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
