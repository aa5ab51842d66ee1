#pragma once

// The members of Strategy and StrategyExtended that take or make datasets. A header of their own, so that a
// strategy without input does not include the input pipeline.

#include <concepts>
#include <optional>

#include <lockstep/input/dataset.hpp>
#include <lockstep/input/distribute.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/input/numpy.hpp>
#include <lockstep/strategy/strategy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

template <class E>
DistributedDataset<detail::merged_t<E>> Strategy::distribute_dataset(const TypedDataset<E>& dataset,
                                                                     const InputOptions& options) {
  detail::check_cross_replica(*this, "distribute_dataset");
  return detail::distribute(dataset, input_target(), options);
}

template <std::same_as<Dataset> D>
auto Strategy::distribute_dataset(const D&, const InputOptions&) {
  static_assert(!std::same_as<D, Dataset>,
                "distribute_dataset: a Dataset has forgotten the type of its elements: pass "
                "dataset.as<E>(), where E is Tensor or the nest that they are");
}

template <std::invocable<InputContext> F>
auto Strategy::distribute_datasets_from_function(F&& fn, const InputOptions& options) {
  std::optional<decltype(detail::distribute_from_function(fn, input_target(), options))> result;
  detail::call_in_cross_replica_context(*this, "distribute_datasets_from_function", [&] {
    result.emplace(detail::distribute_from_function(fn, input_target(), options));
  });
  return *result;
}

template <class Arrays>
auto StrategyExtended::make_numpy_dataset(const Arrays& arrays) const {
  detail::check_cross_replica(strategy_, "make_numpy_dataset");
  return detail::make_numpy_dataset(arrays);
}

template <class Arrays>
auto Strategy::make_numpy_dataset(const Arrays& arrays) {
  return extended().make_numpy_dataset(arrays);
}

/// The same as Strategy::make_numpy_dataset.
template <class Arrays>
[[nodiscard]] auto make_numpy_dataset(const Arrays& arrays, Strategy& strategy) {
  return strategy.make_numpy_dataset(arrays);
}

}  // namespace lockstep

#pragma GCC visibility pop
