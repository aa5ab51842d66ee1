#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/input/dataset.hpp>
#include <lockstep/input/distributed_dataset.hpp>
#include <lockstep/strategy/input.hpp>
#include <lockstep/values/per_replica.hpp>

#include "input/pipeline/pipeline.hpp"

/// Reading datasets into plain values.
namespace lockstep::test {

using Values = std::vector<std::int64_t>;

/// begin, begin + 1, … below end.
inline Values sequence(std::int64_t begin, std::int64_t end) {
  Values values;
  for (std::int64_t i = begin; i < end; ++i) values.push_back(i);
  return values;
}

/// An i64 tensor of rank 1.
inline Tensor vector_of(const Values& values) { return Tensor::from(values, Shape(values.size())); }

inline std::vector<Device> host_devices(int n) {
  std::vector<Device> devices;
  for (int i = 0; i < n; ++i) devices.emplace_back(DeviceKind::cpu, i);
  return devices;
}

/// Each component of an i64 value.
inline std::vector<Values> components(const PerReplica<Tensor>& value) {
  std::vector<Values> result;
  for (const Tensor& component : value) result.push_back(component.to_vector<std::int64_t>());
  return result;
}

/// Each step's components.
inline std::vector<std::vector<Values>> all_steps(const DistributedDataset<PerReplica<Tensor>>& dataset) {
  std::vector<std::vector<Values>> steps;
  for (const PerReplica<Tensor>& value : dataset) steps.push_back(components(value));
  return steps;
}

/// One tensor of each element left in a pass.
inline std::vector<Values> all_elements(detail::Iterator<detail::FlatElement>& pass, std::size_t leaf = 0) {
  std::vector<Values> elements;
  while (const auto element = pass.next()) elements.push_back((*element)[leaf].to_vector<std::int64_t>());
  return elements;
}
inline std::vector<Values> all_elements(const Dataset& dataset, std::size_t leaf = 0) {
  return all_elements(*dataset.pipeline()->open(), leaf);
}

/// All values of one tensor of each element, one after the other.
inline Values flat_elements(const Dataset& dataset, std::size_t leaf = 0) {
  Values values;
  for (const Values& element : all_elements(dataset, leaf))
    values.insert(values.end(), element.begin(), element.end());
  return values;
}

/// A pass over given values; it goes on after each empty one.
template <class T>
class ListIterator final : public detail::Iterator<T> {
 public:
  explicit ListIterator(std::vector<std::optional<T>> values) : values_(std::move(values)) {}
  std::optional<T> next() override {
    return next_ < values_.size() ? std::move(values_[next_++]) : std::nullopt;
  }
  void transfer(detail::PassState& state) override { state(next_); }

 private:
  std::vector<std::optional<T>> values_;
  std::size_t next_ = 0;
};

/// A pass over elements of one tensor.
inline std::unique_ptr<detail::Iterator<detail::FlatElement>> list_pass(const std::vector<Tensor>& tensors) {
  std::vector<std::optional<detail::FlatElement>> elements;
  for (const Tensor& tensor : tensors) elements.push_back(detail::FlatElement{tensor});
  return std::make_unique<ListIterator<detail::FlatElement>>(std::move(elements));
}

}  // namespace lockstep::test
