#pragma once

#include <cmath>

/// Optimizers of one number, in double, written out as the papers have them.
namespace lockstep::test {

struct ScalarMomentum {
  double learning_rate, momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double velocity = 0;

  double step(double w, double gradient) {
    const double g = gradient + weight_decay * w;
    velocity = momentum * velocity + g;
    return w - learning_rate * (nesterov ? g + momentum * velocity : velocity);
  }
};

struct ScalarAdam {
  double learning_rate, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  double first_moment = 0, second_moment = 0;
  int steps = 0;

  double step(double w, double gradient) {
    ++steps;
    first_moment = beta1 * first_moment + (1 - beta1) * gradient;
    second_moment = beta2 * second_moment + (1 - beta2) * gradient * gradient;
    const double m = first_moment / (1 - std::pow(beta1, steps));
    const double v = second_moment / (1 - std::pow(beta2, steps));
    return w - learning_rate * (m / (std::sqrt(v) + epsilon) + weight_decay * w);
  }
};

}  // namespace lockstep::test
