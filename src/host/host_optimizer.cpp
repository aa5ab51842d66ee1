#include <cmath>
#include <cstdint>

#include "backend/adam_factors.hpp"
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
    const detail::AdamFactors<C> factors(parameters);

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
      const detail::AdamFactors<C> by = factors;  // a local copy, which no store may change
      LOCKSTEP_INDEPENDENT_ELEMENTS
      for (std::int64_t i = 0; i < n; ++i) {
        const C first = by.beta1 * old_first[i] + by.one_less_beta1 * g[i];
        const C second = by.beta2 * old_second[i] + by.one_less_beta2 * (g[i] * g[i]);
        m[i] = first;
        v[i] = second;
        w[i] =
            old[i] - by.rate * ((first / by.correction1) / (std::sqrt(second / by.correction2) + by.epsilon) +
                                by.decay * old[i]);
      }
      write_variable.commit(begin, n);
      write_first.commit(begin, n);
      write_second.commit(begin, n);
    });
  });
}

}  // namespace lockstep::host
