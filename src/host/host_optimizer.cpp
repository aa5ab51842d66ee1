#include <cmath>
#include <cstdint>

#include "detail/float_environment.hpp"
#include "host/host_kernels.hpp"
#include "host/host_tiles.hpp"

namespace lockstep::host {

void HostKernels::sgd_update(const TensorView& variable, const TensorView& velocity,
                             const TensorView& gradient, const backend::UpdateParameters& parameters,
                             backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  dispatch_floating("sgd_update", variable, [&]<class C>() {
    const C rate = static_cast<C>(parameters.learning_rate);
    const C momentum = static_cast<C>(parameters.momentum);
    const C decay = static_cast<C>(parameters.weight_decay);
    const bool nesterov = parameters.nesterov;
    const bool has_velocity = velocity.data != nullptr;

    TileReader<C> read_variable(variable), read_velocity(velocity), read_gradient(gradient);
    TileWriter<C> write_variable(variable), write_velocity(velocity);
    const bool converts =
        read_variable.converts() || read_gradient.converts() || (has_velocity && read_velocity.converts());
    for_each_tile(variable.size(), converts, [&](std::int64_t begin, std::int64_t n) {
      const C* const old = read_variable.read(begin, n);
      const C* const slope = read_gradient.read(begin, n);
      C* const w = write_variable.at(begin);
      if (has_velocity) {
        const C* const old_velocity = read_velocity.read(begin, n);
        C* const v = write_velocity.at(begin);
        LOCKSTEP_INDEPENDENT_ELEMENTS
        for (std::int64_t i = 0; i < n; ++i) {
          const C g = slope[i] + decay * old[i];
          const C speed = momentum * old_velocity[i] + g;
          v[i] = speed;
          w[i] = old[i] - rate * (nesterov ? g + momentum * speed : speed);
        }
        write_velocity.commit(begin, n);
      } else {
        LOCKSTEP_INDEPENDENT_ELEMENTS
        for (std::int64_t i = 0; i < n; ++i) w[i] = old[i] - rate * (slope[i] + decay * old[i]);
      }
      write_variable.commit(begin, n);
    });
  });
}

void HostKernels::adam_update(const TensorView& variable, const TensorView& first_moment,
                              const TensorView& second_moment, const TensorView& gradient,
                              const backend::UpdateParameters& parameters, backend::StreamHandle) {
  const detail::FloatEnvironment environment;
  dispatch_floating("adam_update", variable, [&]<class C>() {
    const double step = static_cast<double>(parameters.step);
    const C rate = static_cast<C>(parameters.learning_rate);
    const C decay = static_cast<C>(parameters.weight_decay);
    const C beta1 = static_cast<C>(parameters.beta1);
    const C beta2 = static_cast<C>(parameters.beta2);
    const C one_less_beta1 = static_cast<C>(1 - parameters.beta1);
    const C one_less_beta2 = static_cast<C>(1 - parameters.beta2);
    const C correction1 = static_cast<C>(1 - std::pow(parameters.beta1, step));
    const C correction2 = static_cast<C>(1 - std::pow(parameters.beta2, step));
    const C epsilon = static_cast<C>(parameters.epsilon);

    TileReader<C> read_variable(variable), read_first(first_moment), read_second(second_moment),
        read_gradient(gradient);
    TileWriter<C> write_variable(variable), write_first(first_moment), write_second(second_moment);
    const bool converts = read_variable.converts() || read_first.converts() || read_second.converts() ||
                          read_gradient.converts();
    for_each_tile(variable.size(), converts, [&](std::int64_t begin, std::int64_t n) {
      const C* const old = read_variable.read(begin, n);
      const C* const old_first = read_first.read(begin, n);
      const C* const old_second = read_second.read(begin, n);
      const C* const g = read_gradient.read(begin, n);
      C* const w = write_variable.at(begin);
      C* const m = write_first.at(begin);
      C* const v = write_second.at(begin);
      LOCKSTEP_INDEPENDENT_ELEMENTS
      for (std::int64_t i = 0; i < n; ++i) {
        const C first = beta1 * old_first[i] + one_less_beta1 * g[i];
        const C second = beta2 * old_second[i] + one_less_beta2 * (g[i] * g[i]);
        m[i] = first;
        v[i] = second;
        w[i] = old[i] -
               rate * ((first / correction1) / (std::sqrt(second / correction2) + epsilon) + decay * old[i]);
      }
      write_variable.commit(begin, n);
      write_first.commit(begin, n);
      write_second.commit(begin, n);
    });
  });
}

}  // namespace lockstep::host
