#pragma once

#include <initializer_list>
#include <vector>

#include <lockstep/strategy/strategy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Synchronous replicas whose variables live once, on a parameter device: a read in a replica copies the
/// value to the replica's device, a write in replicas is aggregated on the parameter device. For models that
/// do not fit beside the activations, or replicas that share little.
///
/// A variable has one component. In a replica its writes follow the aggregation whatever the synchronization,
/// on_read included, as there is no component of the replica's own.
class CentralStorageStrategy : public Strategy {
 public:
  /// All GPUs with the variables on the CPU, or, where there is one GPU, on that; with none, the host
  /// replicas (DeviceManager::devices(cpu)) with the variables on CPU:0.
  CentralStorageStrategy();
  /// One replica per worker device; none: as the default constructor.
  /// @throws as MirroredStrategy.
  CentralStorageStrategy(std::initializer_list<Device> worker_devices, const Device& parameter_device,
                         const CommunicationOptions& options = {});
  CentralStorageStrategy(std::vector<Device> worker_devices, const Device& parameter_device,
                         const CommunicationOptions& options = {});
  /// With the parameter device that the default constructor would choose.
  explicit CentralStorageStrategy(std::initializer_list<Device> worker_devices,
                                  const CommunicationOptions& options = {});
  explicit CentralStorageStrategy(std::vector<Device> worker_devices,
                                  const CommunicationOptions& options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
