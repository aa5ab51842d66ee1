#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include <lockstep/collectives/cross_device_ops.hpp>
#include <lockstep/strategy/strategy.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Synchronous replicas on the devices of one process: variables are mirrored on each, reductions run over
/// all.
///
/// Two strategies may share devices; their work is then ordered on the devices' streams. A cluster in the
/// environment variable TF_CONFIG is ignored, with a line in the log.
class MirroredStrategy : public Strategy {
 public:
  /// All GPUs; with none, the host replicas (DeviceManager::devices(cpu)).
  MirroredStrategy();
  /// One replica per device, in this order; none: as the default constructor.
  /// @throws InvalidArgument  a device twice, devices of two kinds, or a bad name. @throws NotFound  there is
  /// no such device. @throws ContextError  a device of another task. @throws Unsupported  virtual devices of
  /// one GPU together with another GPU.
  explicit MirroredStrategy(std::initializer_list<Device> devices, const CommunicationOptions& options = {});
  explicit MirroredStrategy(std::vector<Device> devices, const CommunicationOptions& options = {});
  /// With an explicit choice of how values are combined. @throws InvalidArgument  it is null.
  MirroredStrategy(std::vector<Device> devices, std::unique_ptr<CrossDeviceOps> cross_device_ops,
                   const CommunicationOptions& options = {});
};

}  // namespace lockstep

#pragma GCC visibility pop
