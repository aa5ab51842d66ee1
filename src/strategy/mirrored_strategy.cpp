#include <lockstep/device_manager.hpp>
#include <lockstep/strategy/mirrored_strategy.hpp>

namespace lockstep {

namespace {

std::vector<Device> or_default(std::vector<Device> devices) {
  if (!devices.empty()) return devices;
  devices = DeviceManager::instance().devices(DeviceKind::gpu);
  return devices.empty() ? DeviceManager::instance().devices(DeviceKind::cpu) : devices;
}

}  // namespace

MirroredStrategy::MirroredStrategy() : MirroredStrategy(std::vector<Device>()) {}

MirroredStrategy::MirroredStrategy(std::initializer_list<Device> devices, const CommunicationOptions& options)
    : MirroredStrategy(std::vector<Device>(devices), options) {}

MirroredStrategy::MirroredStrategy(std::vector<Device> devices, const CommunicationOptions& options)
    : Strategy(or_default(std::move(devices)), options, "MirroredStrategy") {}

MirroredStrategy::MirroredStrategy(std::vector<Device> devices,
                                   std::unique_ptr<CrossDeviceOps> cross_device_ops,
                                   const CommunicationOptions& options)
    : MirroredStrategy(std::move(devices), options) {
  LOCKSTEP_EXPECTS(cross_device_ops != nullptr, InvalidArgument,
                   "MirroredStrategy: cross_device_ops is null. Leave the argument out for the default.");
  use(std::move(cross_device_ops));
}

}  // namespace lockstep
