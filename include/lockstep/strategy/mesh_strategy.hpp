#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <lockstep/strategy/device_assignment.hpp>
#include <lockstep/strategy/strategy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

namespace cluster {
class Resolver;
}

/// Synchronous replicas of several devices each: replica r's logical devices 0, 1, ... are the cores that a
/// DeviceAssignment gives it in a mesh. As tf.distribute.TPUStrategy, for any kind of device.
///
/// Within a replica the caller says what goes where: guards (StrategyExtended::logical_device,
/// ReplicaContext::logical_device) send variables and work to logical device k of each replica, and
/// collectives run over the devices of one k; assign_to, split_to and replicate_to_logical_devices place
/// single tensors. Without either all is on logical device 0, where input arrives, too. Variables are
/// mirrored over the replicas, as MirroredStrategy's are; state of no variable is on the host.
///
/// All devices are this process's. A communicator for each logical device is made with the strategy.
class MeshStrategy : public Strategy {
 public:
  /// Each device is a replica: all GPUs; with none, the host replicas (DeviceManager::devices(cpu)).
  MeshStrategy();
  /// The assignment's replicas. Its devices on task 0 are this process's, GPU:k or CPU:k.
  /// @throws ContextError  a device of another task. @throws NotFound  there is no such device.
  /// @throws Unsupported  virtual devices of one GPU together with another GPU, in one logical device.
  explicit MeshStrategy(DeviceAssignment assignment, const CommunicationOptions& options = {});
  /// In a cluster: the topology's task t is task t of the resolver's job, and this process is the task that
  /// the resolver says it is. Without an assignment each device of the cluster is a replica: the GPUs that
  /// the resolver counts, where it counts none those of the default constructor. An empty cluster is this
  /// process; no resolver (null): as the constructors above.
  /// @throws InvalidArgument  a cluster, but the resolver does not say which of its tasks this process is, or
  /// it is none that computes. @throws ContextError  a device of another task, so without an assignment also
  /// a cluster of several tasks. @throws NotFound, Unsupported  as above.
  explicit MeshStrategy(std::shared_ptr<cluster::Resolver> resolver,
                        std::optional<DeviceAssignment> assignment = std::nullopt,
                        const CommunicationOptions& options = {});

  /// Hosts that the replicas' logical devices 0 are on.
  [[nodiscard]] int num_hosts() const;
  /// Replicas that have room on one host: min(replicas, ⌊devices per host / logical devices⌋).
  [[nodiscard]] int num_replicas_per_host() const noexcept;
  /// The assignment that was given, if one was.
  [[nodiscard]] const std::optional<DeviceAssignment>& device_assignment() const& noexcept;
  [[nodiscard]] std::optional<DeviceAssignment> device_assignment() const&&;
};

}  // namespace lockstep

#pragma GCC visibility pop
