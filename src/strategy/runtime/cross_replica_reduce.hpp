#pragma once

#include <span>
#include <string_view>

#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/values/reduce_value.hpp>

#include "strategy/runtime/strategy_state.hpp"
#include "strategy/strategy_access.hpp"

namespace lockstep::detail {

/// The tensor on `device`, in storage of its own.
inline Tensor copied_to(const Tensor& tensor, const Device& device) {
  return tensor.device() == device ? tensor.clone() : tensor.to(device);
}

/// One reduction over replicas, called from cross-replica context. It has the rules for which kind of value
/// can be reduced by which op.
class CrossReplicaReduce {
 public:
  CrossReplicaReduce(StrategyState& state, ReduceOp op, std::string_view what,
                     const CommunicationOptions& options = {})
      : state_(state), op_(op), what_(what), options_(options) {}

  /// Every value's result on one device.
  RecycledVector<Contribution> to_device(std::span<const ReduceValue> values, const Device& device);
  /// Every value's result on all its devices, in their order; of a mirrored value that is its own result, its
  /// own tensors. Sparse results come back dense.
  RecycledVector<RecycledVector<Tensor>> to_devices(std::span<const ReduceTo> reductions);
  /// Every value's result along axes and over replicas, on one device.
  RecycledVector<Contribution> along(std::span<const ReduceValue> values, const Axes& axes,
                                     const Device& device);
  IndexedSlices sparse(const ReduceValue& value, const Device& device);

 private:
  /// @throws InvalidArgument  not one component for each local replica.
  void check_num_components(const ReduceValue& value) const;
  /// Whether the reduction is the identity: a mean of a plain or mirrored value, or any reduction in a
  /// strategy that does not synchronise.
  /// @throws InvalidArgument  the value cannot be reduced by this op.
  bool is_unchanged(const ReduceValue& value) const;
  /// The logical device over which a value is reduced: its result's, else the value's own, else the current
  /// one.
  std::size_t logical_device_for(const ReduceValue& value, std::span<const Device> destination) const;
  /// Component i on devices[i], contiguous. @throws InvalidArgument  shapes or dtypes differ.
  RecycledVector<Tensor> components(const ReduceValue& value, std::span<const Device> devices) const;
  /// The id of a local replica.
  int id_of(std::size_t i) const { return state_.first_replica() + static_cast<int>(i); }
  /// Whether every replica has the value's component, and all are equal.
  bool is_mirrored(const ReduceValue& value) const;
  Tensor over_workers(const Tensor& own);
  IndexedSlices sparse_over_workers(const ReduceValue& value, const Device& device);
  RecycledVector<TensorView> views_of_all(ReplicaGroup& group, std::span<const Tensor> parts) const;
  Tensor along_axes(const ReduceValue& value, const Axes& axes, const Device& device);

  StrategyState& state_;
  ReduceOp op_;
  std::string_view what_;
  CommunicationOptions options_;
};

}  // namespace lockstep::detail
