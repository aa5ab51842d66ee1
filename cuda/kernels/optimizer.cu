#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>

#include "backend/adam_factors.hpp"
#include "cuda_kernels.hpp"
#include "detail/float_environment.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/element.cuh"
#include "kernels/launch.cuh"
#include "kernels/split.cuh"

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

template <int kSlots>
struct Arrays {
  void* variable;
  const void* gradient;
  void* slots[kSlots];  // slots[0] is null where there are no slots
};

template <class T, int kCount, class Step, int kSlots>
__device__ void update(const Step& step, const Arrays<kSlots>& arrays, std::int64_t i, bool aligned) {
  using C = compute_t<T>;
  const bool has_slots = arrays.slots[0] != nullptr;
  auto variable = load<T, kCount>(arrays.variable, i, aligned);
  const auto gradient = load<T, kCount>(arrays.gradient, i, aligned);
  Vector<T, kCount> slots[kSlots]{};
  if (has_slots) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k) slots[k] = load<T, kCount>(arrays.slots[k], i, aligned);
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
  store<T, kCount>(arrays.variable, i, variable, aligned);
  if (has_slots) {
#pragma unroll
    for (int k = 0; k < kSlots; ++k) store<T, kCount>(arrays.slots[k], i, slots[k], aligned);
  }
}

template <class T, class Step, int kSlots>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Step step, const backend::StepNumbers* numbers, Arrays<kSlots> arrays, std::int64_t count,
                  Split split, bool aligned) {
  if (numbers != nullptr) step.take(*numbers);
  for_each_vector<kPer16Bytes<T>>(count, split, [&](std::int64_t i, auto constant) {
    update<T, decltype(constant)::value>(step, arrays, i, aligned);
  });
}

template <class T, class Step, int kSlots>
void run(const Place& place, const char* operation, const Step& step, const backend::StepNumbers* numbers,
         const Arrays<kSlots>& arrays, std::int64_t count) {
  std::array<const void*, kSlots + 2> addresses{arrays.variable, arrays.gradient};
  std::ranges::copy(arrays.slots, addresses.begin() + 2);
  const bool aligned =
      std::ranges::all_of(addresses, [](const void* address) { return are_multiples(sizeof(T), address); });
  const Split split = split_run<T>(count, addresses);
  Arrays<kSlots> origins{split.origin<T>(arrays.variable), split.origin<T>(arrays.gradient), {}};
  for (int k = 0; k < kSlots; ++k) origins.slots[k] = split.origin<T>(arrays.slots[k]);
  launch(place, operation, split.blocks(count), kThreads, update_kernel<T, Step, kSlots>, step, numbers,
         origins, count, split, aligned);
}

}  // namespace

void CudaKernels::sgd_update(const TensorView& variable, const TensorView& velocity,
                             const TensorView& gradient, const backend::UpdateParameters& parameters,
                             backend::StreamHandle stream) {
  const lockstep::detail::FloatEnvironment floats;
  const Place place = place_on(stream);
  dispatch_floating("sgd_update", variable, [&]<class T>() {
    using C = compute_t<T>;
    const Sgd<C> step{static_cast<C>(parameters.learning_rate), static_cast<C>(parameters.momentum),
                      static_cast<C>(parameters.weight_decay), parameters.nesterov};
    run<T>(place, "sgd_update", step, parameters.numbers,
           Arrays<1>{variable.data, gradient.data, {velocity.data}}, variable.size());
  });
}

void CudaKernels::adam_update(const TensorView& variable, const TensorView& first_moment,
                              const TensorView& second_moment, const TensorView& gradient,
                              const backend::UpdateParameters& parameters, backend::StreamHandle stream) {
  const lockstep::detail::FloatEnvironment floats;
  const Place place = place_on(stream);
  dispatch_floating("adam_update", variable, [&]<class T>() {
    using C = compute_t<T>;
    const Adam<C> step{lockstep::detail::AdamFactors<C>(parameters)};
    run<T>(place, "adam_update", step, parameters.numbers,
           Arrays<2>{variable.data, gradient.data, {first_moment.data, second_moment.data}}, variable.size());
  });
}

}  // namespace lockstep::cuda
