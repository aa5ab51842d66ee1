#include <lockstep/strategy/mirrored_strategy.hpp>

#include <lockstep/device_manager.hpp>

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

}  // namespace lockstep
