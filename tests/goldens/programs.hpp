#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.hpp>

#include "goldens/golden.hpp"
#include "support/replica_values.hpp"
#include "support/test_backend.hpp"

/// What the cases' programs call it, cases/framework.py.
namespace lockstep::test {

inline constexpr ReduceOp kSum = ReduceOp::sum;
inline constexpr ReduceOp kMean = ReduceOp::mean;

inline Tensor f32(double value) { return Tensor::scalar(static_cast<float>(value)); }
inline Tensor i32(int value) { return Tensor::scalar(value); }
inline Tensor f32s(const std::vector<float>& values) { return Tensor::from(values, Shape(values.size())); }
inline Tensor f32s(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}
inline Tensor i32s(const std::vector<std::int32_t>& values) {
  return Tensor::from(values, Shape(values.size()));
}

inline int replica_id() { return get_replica_context()->replica_id_in_sync_group(); }
inline ReplicaContext& context() { return *get_replica_context(); }
inline Tensor id_tensor() { return f32(replica_id()); }

/// Component i, on device i.
inline PerReplica<Tensor> per_replica(std::vector<Tensor> components) {
  for (std::size_t i = 0; i < components.size(); ++i)
    components[i] = components[i].to(TestBackend::device(static_cast<int>(i))).clone();
  return PerReplica<Tensor>(std::move(components));
}
inline Mirrored<Tensor> mirrored_value(std::vector<Tensor> components) {
  const PerReplica<Tensor> placed = per_replica(std::move(components));
  return Mirrored<Tensor>({placed.begin(), placed.end()});
}

/// Row 1 = [1 2] of replica 0; row 1 = [3 4] and row 3 = [5 6] of replica 1.
inline PerReplica<IndexedSlices> table_rows() {
  const auto rows = [](int replica, const std::vector<float>& values,
                       const std::vector<std::int64_t>& indices) {
    const Device device = TestBackend::device(replica);
    return IndexedSlices{Tensor::from(values, {indices.size(), 2}, device),
                         Tensor::from(indices, {indices.size()}, device),
                         {5, 2}};
  };
  return PerReplica<IndexedSlices>({rows(0, {1, 2}, {1}), rows(1, {3, 4, 5, 6}, {1, 3})});
}

class OneDevice : public OneDeviceStrategy {
 public:
  OneDevice() : OneDeviceStrategy(TestBackend::device(0)) {}
};
class Central : public CentralStorageStrategy {
 public:
  explicit Central(int n) : CentralStorageStrategy(TestBackend::devices(n), TestBackend::device(0)) {}
};

inline Variable variable(Strategy& strategy, const Tensor& initial,
                         VariableAggregation aggregation = VariableAggregation::none,
                         VariableSynchronization synchronization = VariableSynchronization::automatic,
                         std::string name = {}) {
  return strategy.make_variable(
      initial, {.name = std::move(name), .synchronization = synchronization, .aggregation = aggregation});
}
inline Variable variable(Strategy& strategy, double initial,
                         VariableAggregation aggregation = VariableAggregation::none,
                         VariableSynchronization synchronization = VariableSynchronization::automatic,
                         std::string name = {}) {
  return variable(strategy, f32(initial), aggregation, synchronization, std::move(name));
}

inline Json component_list(const Variable& variable) {
  return encode(variable.strategy().local_results(variable));
}

/// Operators, as the results are called.
inline const std::vector<std::pair<std::string, ReduceOp>> kOps{{"sum", kSum}, {"mean", kMean}};

/// f.operator()<T>(TensorFlow's name), for each of the types.
template <class F>
void for_each_dtype(F&& f) {
  f.template operator()<f16>("float16");
  f.template operator()<bf16>("bfloat16");
  f.template operator()<float>("float32");
  f.template operator()<double>("float64");
  f.template operator()<std::int8_t>("int8");
  f.template operator()<std::int16_t>("int16");
  f.template operator()<std::int32_t>("int32");
  f.template operator()<std::int64_t>("int64");
  f.template operator()<std::uint8_t>("uint8");
  f.template operator()<std::uint16_t>("uint16");
  f.template operator()<std::uint32_t>("uint32");
  f.template operator()<std::uint64_t>("uint64");
}

template <Element T>
Tensor numbers(std::initializer_list<int> values) {
  std::vector<T> converted;
  for (const int value : values) converted.push_back(static_cast<T>(static_cast<float>(value)));
  return Tensor::from(converted, Shape(converted.size()));
}
template <Element T>
Tensor number(int value) {
  return numbers<T>({value}).reshape({});
}

/// The name of every aggregation, as the results are called.
inline const std::vector<VariableAggregation>& aggregations() {
  static const std::vector<VariableAggregation> all{VariableAggregation::none, VariableAggregation::sum,
                                                    VariableAggregation::mean,
                                                    VariableAggregation::only_first_replica};
  return all;
}
inline std::string text(VariableAggregation aggregation) { return std::string(name(aggregation)); }
inline std::string text(VariableSynchronization synchronization) {
  return std::string(name(synchronization));
}

}  // namespace lockstep::test
