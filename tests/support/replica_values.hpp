#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <lockstep/strategy/mirrored_strategy.hpp>
#include <lockstep/tensor.hpp>
#include <lockstep/values/per_replica.hpp>
#include <lockstep/values/reduce_value.hpp>

#include "support/test_backend.hpp"

/// Values for replicas on the first devices of the backend under test, and what is in values.
namespace lockstep::test {

/// Replica i's vector, on device i.
template <Element T>
PerReplica<Tensor> vectors(const std::vector<std::vector<T>>& values) {
  std::vector<Tensor> components;
  for (const std::vector<T>& value : values) {
    const int i = static_cast<int>(components.size());
    components.push_back(
        Tensor::from(value, Shape(static_cast<std::int64_t>(value.size())), TestBackend::device(i)));
  }
  return PerReplica(std::move(components));
}

/// Replica i's scalar, on device i.
template <Element T>
PerReplica<Tensor> scalars(std::initializer_list<T> values) {
  std::vector<Tensor> components;
  for (const T value : values)
    components.push_back(Tensor::scalar(value, TestBackend::device(static_cast<int>(components.size()))));
  return PerReplica(std::move(components));
}

/// Every component's only element.
template <Element T, class Tensors>
std::vector<T> items(const Tensors& tensors) {
  std::vector<T> result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.template item<T>());
  return result;
}

/// A strategy with one replica on each of the first n devices.
class Replicas : public MirroredStrategy {
 public:
  explicit Replicas(int n, const CommunicationOptions& options = {})
      : MirroredStrategy(TestBackend::devices(n), options) {}
};

}  // namespace lockstep::test
