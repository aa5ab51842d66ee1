#include "strategy/runtime/default_devices.hpp"

#include <lockstep/device_manager.hpp>

namespace lockstep::detail {

std::vector<Device> or_default_devices(std::vector<Device> devices) {
  if (!devices.empty()) return devices;
  devices = DeviceManager::instance().devices(DeviceKind::gpu);
  return devices.empty() ? DeviceManager::instance().devices(DeviceKind::cpu) : devices;
}

}  // namespace lockstep::detail
