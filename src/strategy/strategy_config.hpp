#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <lockstep/cluster/resolver.hpp>
#include <lockstep/collectives/cross_device_ops.hpp>
#include <lockstep/collectives/options.hpp>
#include <lockstep/device.hpp>
#include <lockstep/strategy/device_assignment.hpp>

namespace lockstep::detail {

class WorkerGroup;

/// The differences between kinds of strategies. Data, as other threads may ask for it while a strategy is
/// destroyed.
struct StrategyKind {
  std::string_view name;  ///< For messages.
  /// Whether values are combined at all; else every reduction without axes is the identity.
  bool synchronises = true;
  /// Whether datasets can be made for each replica.
  bool has_per_replica_input = false;
  /// The device of state that belongs to no single variable; nothing: as StrategyExtended::non_slot_devices
  /// says.
  std::optional<Device> non_slot_device{};
};

/// The choices that a strategy's constructor makes. They do not change afterwards.
struct StrategyConfig {
  StrategyKind kind;
  std::vector<std::vector<Device>> logical_devices;  ///< [num_logical_devices][num_replicas].
  std::vector<Device> parameter_devices{};           ///< Of variables; none: the replicas'.
  CommunicationOptions options{};
  std::unique_ptr<CrossDeviceOps> cross_device_ops{};     ///< Null: the communicators.
  std::shared_ptr<cluster::Resolver> cluster_resolver{};  ///< Null: a strategy of one process.
  std::shared_ptr<WorkerGroup> workers{};        ///< Null: alone. Owners: the strategy, and who makes it.
  std::optional<DeviceAssignment> assignment{};  ///< Of a mesh.
};

}  // namespace lockstep::detail
