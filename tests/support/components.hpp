#pragma once

#include <cstdint>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <lockstep/optim/optimizer.hpp>
#include <lockstep/strategy/strategy.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/variable.hpp>

/// Reads the components of variables.
namespace lockstep::test {

template <Element T>
Tensor filled(const Shape& shape, double value) {
  return Tensor::full(shape, static_cast<T>(value));
}

template <Element T>
std::vector<std::vector<T>> components(const Variable& variable) {
  std::vector<std::vector<T>> values;
  for (const Tensor& component : variable.strategy().local_results(variable))
    values.push_back(component.to_vector<T>());
  return values;
}

/// All components have the same bits, and so have all elements; returns one.
template <Element T>
T same_everywhere(const Variable& variable) {
  const auto values = components<T>(variable);
  for (const std::vector<T>& component : values) {
    REQUIRE(component == values[0]);
    REQUIRE(component == std::vector<T>(component.size(), component[0]));
  }
  return values[0][0];
}

inline std::int64_t steps(const optim::Optimizer& optimizer) {
  return same_everywhere<std::int64_t>(optimizer.iterations());
}

}  // namespace lockstep::test
