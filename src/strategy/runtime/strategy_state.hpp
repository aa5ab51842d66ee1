#pragma once

#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/detail/mutex.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "strategy/runtime/replica_executor.hpp"
#include "strategy/runtime/replica_groups.hpp"
#include "strategy/runtime/run_failures.hpp"
#include "strategy/runtime/strategy_calls.hpp"
#include "strategy/strategy_config.hpp"
#include "strategy/variable/variable_registry.hpp"

namespace lockstep::detail {

class LastLaunch;
class WorkerMeeting;

/// The parts of a strategy.
class StrategyState {
 public:
  /// @throws as Strategy's constructor.
  StrategyState(Strategy& strategy, StrategyConfig config);
  /// Waits for the work that is enqueued on the devices' streams.
  ~StrategyState();
  StrategyState(const StrategyState&) = delete;
  StrategyState& operator=(const StrategyState&) = delete;

  static StrategyState& of(const Strategy& strategy) noexcept { return *strategy.state_; }

  const StrategyConfig& config() const noexcept { return config_; }
  const StrategyKind& kind() const noexcept { return config_.kind; }
  const CommunicationOptions& options() const noexcept { return config_.options; }
  /// The caller's own way to combine values; null: the communicators.
  CrossDeviceOps* cross_device_ops() const noexcept { return config_.cross_device_ops.get(); }
  StrategyExtended& extended() noexcept { return extended_; }
  StrategyCalls& calls() noexcept { return calls_; }
  ReplicaExecutor& executor() noexcept { return executor_; }
  RunFailures& failures() noexcept { return failures_; }
  VariableRegistry& variables() noexcept { return variables_; }

  ReplicaGroups& groups() noexcept { return groups_; }
  int num_local_replicas() const noexcept { return groups_.num_local_replicas(); }
  /// Over all workers.
  int num_replicas() const noexcept { return groups_.num_replicas(); }
  /// The id of local replica 0.
  int first_replica() const noexcept { return groups_.first_replica(); }

  /// Null: this process works alone.
  WorkerGroup* workers() noexcept { return config_.workers.get(); }
  /// One rank for each worker, on its host. @pre workers() is not null.
  ReplicaGroup& worker_group() noexcept { return *worker_group_; }
  /// The workers meet in a call, which reports tell as one of the workers' group. @param operation  static.
  /// @pre workers() is not null.
  void meet_workers(std::string_view operation, FunctionRef<void(WorkerMeeting& meeting)> meet);
  /// The outermost call of this worker has failed, and so has, or will, that of each other one. @pre
  /// workers() is not null.
  void fail_workers(const std::exception_ptr& error) noexcept;
  /// The components of all replicas, or the plain values of all workers, concatenated along an axis, on some
  /// device of this process. @pre workers() is not null.
  Tensor gather(const ReduceValue& value, std::int64_t axis);
  InputContext input_context() const;
  /// All workers make a call for the variable of the same name. Nothing to do where this process works alone.
  /// @throws CollectiveMismatch  the names differ: has both.
  void agree_on_variable(std::string_view operation, std::string_view name);
  /// Worker 0's tensor, on this one's device; the argument where this process works alone.
  Tensor from_chief(const Tensor& tensor);
  IndexedSlices from_chief(const IndexedSlices& slices);
  /// The replicas' devices, and the variables', on the current logical device.
  const std::vector<Device>& devices() const noexcept { return groups_.current().devices(); }
  bool has_parameter_devices() const noexcept { return !config_.parameter_devices.empty(); }
  const std::vector<Device>& parameter_devices() const noexcept {
    return has_parameter_devices() ? config_.parameter_devices : devices();
  }
  /// Each device once: those of the replicas, then those of variables that have none.
  std::vector<Device> all_devices() const;
  /// What the replicas of all workers did last. Any thread.
  Report report();
  /// Its traces are dropped at the strategy's end. Thread-safe.
  void add(const std::shared_ptr<FunctionState>& function);
  /// Of graphs on the hardware of the first replica there. @pre in a call of the strategy
  std::shared_ptr<LastLaunch> last_launch(backend::DeviceBackend& first);
  /// On which the strategy's work may be: the communication streams, and the devices' current ones.
  std::vector<StreamRef> streams() const;

  /// Combines one batch over replicas: inputs[i] are replica i's tensors, on its device of `group` and
  /// contiguous.
  /// @return root's results, or with root = -1 everybody's, indexed like the inputs.
  RecycledVector<RecycledVector<Tensor>> reduce(ReplicaGroup& group, ReduceOp op,
                                                std::span<const RecycledVector<Tensor>> inputs, int root,
                                                const CommunicationOptions& call_options);

 private:
  /// The same of this process's.
  Report own_report() const;

  const StrategyConfig config_;
  ReplicaGroups groups_;
  std::optional<ReplicaGroup> worker_group_;
  ReplicaExecutor executor_;
  RunFailures failures_;
  VariableRegistry variables_;
  LeafMutex functions_mutex_;                            // guards functions_
  std::vector<std::weak_ptr<FunctionState>> functions_;  // expired ones among them
  std::map<int, std::shared_ptr<LastLaunch>> last_launches_;
  StrategyCalls calls_;
  StrategyExtended extended_;
};

}  // namespace lockstep::detail
