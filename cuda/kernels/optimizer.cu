#include <array>
#include <concepts>
#include <cstdint>

#include "backend/adam_factors.hpp"
#include "cuda_kernels.hpp"
#include "detail/float_environment.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/multi/table.cuh"

namespace lockstep::cuda {
namespace {

/// Steps in the type that T is computed in: momentum's velocity is one slot, Adam's two moments are two.
template <class C>
struct Sgd {
  C rate, momentum, decay;
  bool nesterov;

  __device__ void take(const backend::StepNumbers& numbers) { rate = static_cast<C>(numbers.learning_rate); }

  __device__ C operator()(C old, C slope, C* slots, bool has_slots) const {
    const C g = slope + decay * old;
    if (!has_slots) return old - rate * g;
    const C speed = momentum * slots[0] + g;
    slots[0] = speed;
    return old - rate * (nesterov ? g + momentum * speed : speed);
  }
};

template <class C>
struct Adam {
  lockstep::detail::AdamFactors<C> by;

  __device__ void take(const backend::StepNumbers& numbers) {
    by.rate = static_cast<C>(numbers.learning_rate);
    if constexpr (std::same_as<C, double>) {
      by.correction1 = numbers.correction1_f64;
      by.correction2 = numbers.correction2_f64;
    } else {
      by.correction1 = numbers.correction1_f32;
      by.correction2 = numbers.correction2_f32;
    }
  }

  __device__ C operator()(C old, C g, C* slots, bool) const {
    const C first = by.beta1 * slots[0] + by.one_less_beta1 * g;
    const C second = by.beta2 * slots[1] + by.one_less_beta2 * (g * g);
    slots[0] = first;
    slots[1] = second;
    return old - by.rate * ((first / by.correction1) / (sqrt(second / by.correction2) + by.epsilon) +
                            by.decay * old);
  }
};

/// Elements [i, i + kCount) of an item: a variable, its gradient and its slots, which may be null.
template <class T, int kCount, int kSlots, class Step>
__device__ void update(const Step& step, const ArrayPart& part, std::int64_t i) {
  using C = compute_t<T>;
  const bool aligned = part.item.aligned;
  void* const* const slot_arrays = part.arrays + 2;
  const bool has_slots = slot_arrays[0] != nullptr;
  auto variable = load<T, kCount>(part.arrays[0], i, aligned);
  const auto gradient = load<T, kCount>(part.arrays[1], i, aligned);
  Vector<T, kCount> slots[kSlots]{};
  if (has_slots) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k) slots[k] = load<T, kCount>(slot_arrays[k], i, aligned);
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    C values[kSlots];
#pragma unroll
    for (int k = 0; k < kSlots; ++k) values[k] = widen(slots[k].elements[j]);
    variable.elements[j] =
        narrow<T>(step(widen(variable.elements[j]), widen(gradient.elements[j]), values, has_slots));
#pragma unroll
    for (int k = 0; k < kSlots; ++k) slots[k].elements[j] = narrow<T>(values[k]);
  }
  store<T, kCount>(part.arrays[0], i, variable, aligned);
  if (has_slots) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k) store<T, kCount>(slot_arrays[k], i, slots[k], aligned);
  }
}

template <class T, int kSlots, class Step>
__global__ void __launch_bounds__(kThreads)
    update_kernel(__grid_constant__ const Table table, Step step, const backend::StepNumbers* numbers) {
  if (numbers != nullptr) step.take(*numbers);
  const ArrayPart part = part_of_block(table);
  for_each_vector<kPer16Bytes<T>>(part, [&](std::int64_t i, auto constant) {
    update<T, decltype(constant)::value, kSlots>(step, part, i);
  });
}

template <class T, int kSlots, class Step>
void run(const Place& place, const char* operation, const Step& step, const backend::StepNumbers* numbers,
         std::span<const backend::UpdateTensors> updates) {
  Tables tables(2 + kSlots, [&](const Table& table, unsigned blocks) {
    launch(place, operation, blocks, kThreads, update_kernel<T, kSlots, Step>, table, step, numbers);
  });
  for (const auto& [variable, gradient, first, second] : updates) {
    const std::array<const void*, 4> arrays{variable.data, gradient.data, first.data, second.data};
    add_arrays<T>(tables, variable.size(), std::span(arrays).first(2 + kSlots));
  }
  tables.flush();
}

}  // namespace

void CudaKernels::sgd_update(const TensorView& variable, const TensorView& velocity,
                             const TensorView& gradient, const backend::UpdateParameters& parameters,
                             backend::StreamHandle stream) {
  const backend::UpdateTensors one{variable, gradient, velocity, TensorView()};
  sgd_updates({&one, 1}, parameters, stream);
}

void CudaKernels::adam_update(const TensorView& variable, const TensorView& first_moment,
                              const TensorView& second_moment, const TensorView& gradient,
                              const backend::UpdateParameters& parameters, backend::StreamHandle stream) {
  const backend::UpdateTensors one{variable, gradient, first_moment, second_moment};
  adam_updates({&one, 1}, parameters, stream);
}

void CudaKernels::sgd_updates(std::span<const backend::UpdateTensors> updates,
                              const backend::UpdateParameters& parameters, backend::StreamHandle stream) {
  const lockstep::detail::FloatEnvironment floats;
  const Place place = place_on(stream);
  dispatch_floating("sgd_update", updates.front().variable, [&]<class T>() {
    using C = compute_t<T>;
    const Sgd<C> step{static_cast<C>(parameters.learning_rate), static_cast<C>(parameters.momentum),
                      static_cast<C>(parameters.weight_decay), parameters.nesterov};
    run<T, 1>(place, "sgd_update", step, parameters.numbers, updates);
  });
}

void CudaKernels::adam_updates(std::span<const backend::UpdateTensors> updates,
                               const backend::UpdateParameters& parameters, backend::StreamHandle stream) {
  const lockstep::detail::FloatEnvironment floats;
  const Place place = place_on(stream);
  dispatch_floating("adam_update", updates.front().variable, [&]<class T>() {
    const Adam<compute_t<T>> step{lockstep::detail::AdamFactors<compute_t<T>>(parameters)};
    run<T, 2>(place, "adam_update", step, parameters.numbers, updates);
  });
}

}  // namespace lockstep::cuda
