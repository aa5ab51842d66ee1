#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/detail/function_ref.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/values/variable.hpp>

namespace lockstep::detail {

/// One of a variable's tensors. Its mutex guards the rest and every write in place; it is held for moments,
/// never while a function of the caller's runs. On cache lines of its own, as each replica uses its own.
class alignas(64) VariableComponent {
 public:
  VariableComponent() = default;
  ~VariableComponent();  // leaves the tensor alone where the mutex is lost
  void initialise(Tensor tensor);

  Mutex& mutex() const noexcept { return mutex_; }

  // @pre for the rest: the calling thread holds the mutex.
  Tensor& tensor() noexcept { return tensor_; }
  const Tensor& tensor() const noexcept { return tensor_; }
  /// The present value, whatever is written later.
  Tensor snapshot() const;
  /// A write begins. @throws Unsupported  the component must stay in its memory, for a graph, and a tensor of
  /// that memory is held.
  void begin_write();
  /// The same for what a graph writes whose launches are counted otherwise: num_writes goes on.
  void begin_counted_write();
  /// Whether a capture has read or written it, so that it must stay in its memory.
  bool stays() const noexcept { return is_in_graph_; }
  /// The number of begin_write's calls; none if launches of graphs may write it, too.
  std::optional<std::uint64_t> num_writes() const;

 private:
  bool notes_capture() const;
  void require_in_place();

  mutable Mutex mutex_{"a variable"};
  Tensor tensor_;
  backend::DeviceBackend* device_ = nullptr;  // the tensor's
  mutable bool is_in_graph_ = false;
  bool is_written_in_graph_ = false;
  bool is_copied_in_graph_ = false;  // when it is read in a capture
  std::uint64_t num_writes_ = 0;
};

/// A variable: its properties, which do not change, and its components, one on each of its devices.
class VariableState {
 public:
  /// @param components  one on each of the variable's devices, with storage of their own.
  VariableState(const VariableOptions& options, Strategy& strategy, std::vector<Tensor> components,
                bool is_one_per_replica);
  /// In the strategy's cross-replica context, or the default one.
  static std::shared_ptr<VariableState> create(Strategy& strategy, FunctionRef<Tensor()> initial,
                                               const VariableOptions& options);

  const std::string& name() const noexcept { return name_; }
  bool trainable() const noexcept { return trainable_; }
  VariableSynchronization synchronization() const noexcept { return synchronization_; }
  VariableAggregation aggregation() const noexcept { return aggregation_; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  /// The components' devices.
  const std::vector<Device>& devices() const noexcept { return devices_; }
  std::size_t num_components() const noexcept { return devices_.size(); }
  /// Component i is on a device of replica i's, for all replicas.
  bool is_one_per_replica() const noexcept { return is_one_per_replica_; }
  /// The strategy combines replicas' writes; else these are as any other.
  bool is_synchronised() const noexcept { return is_synchronised_; }
  /// Each replica has a component of its own, and they differ between reads.
  bool is_sync_on_read() const noexcept { return is_sync_on_read_; }
  /// Each replica has a component of its own, and they are equal.
  bool is_mirrored() const noexcept { return is_one_per_replica_ && is_synchronised_ && !is_sync_on_read_; }

  /// @throws ContextError  it was destroyed.
  Strategy& strategy() const {
    if (life_.expired()) raise_strategy_destroyed();
    return strategy_;
  }
  bool is_of(const Strategy& strategy) const noexcept { return !life_.expired() && &strategy_ == &strategy; }

  VariableComponent& component(std::size_t i) noexcept { return components_[i]; }
  /// A snapshot of component i: in a function given to `update` a copy of the value that it is updating.
  Tensor read(std::size_t i) const;
  /// Read-only snapshots of all components, of one moment.
  /// @throws ContextError  the variable cannot be read here.
  RecycledVector<Tensor> snapshot();
  /// A number that changes with each write of component i outside optimizers; none where writes are not seen:
  /// in a function given to `update`, and where launches of graphs may write it.
  std::optional<std::uint64_t> num_writes(std::size_t i) const;
  /// Whether `value` is one of the components, the same object.
  bool is_component(const Tensor& value) const;
  /// Combines all components of an on_read variable, `parts`, outside replica functions: by the strategy's
  /// collectives, or without them while another thread's run uses these.
  Tensor aggregate(RecycledVector<Tensor> parts) const;
  /// @throws ContextError  the variable cannot be read in the current context: its strategy was destroyed, or
  /// another one's scope is open.
  void check_readable() const;
  /// In a replica function, before the replicas act on one variable together: all meet.
  /// @throws CollectiveMismatch  they name different ones.
  void meet(const ReplicaContext& context, std::string_view operation) const;

 private:
  [[noreturn]] void raise_strategy_destroyed() const;

  const std::string name_;
  const bool trainable_;
  const VariableSynchronization synchronization_;
  const VariableAggregation aggregation_;
  const DType dtype_;
  const Shape shape_;
  const std::vector<Device> devices_;
  const bool is_one_per_replica_;
  const bool is_synchronised_;
  const bool is_sync_on_read_;
  Strategy& strategy_;
  const std::weak_ptr<const Strategy> life_;
  std::vector<VariableComponent> components_;
};

}  // namespace lockstep::detail
