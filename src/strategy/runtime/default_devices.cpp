#include "strategy/runtime/default_devices.hpp"

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>

#include "detail/concat.hpp"
#include "detail/expects.hpp"

namespace lockstep::detail {

std::vector<Device> or_default_devices(std::vector<Device> devices) {
  if (!devices.empty()) return devices;
  devices = DeviceManager::instance().devices(DeviceKind::gpu);
  return devices.empty() ? DeviceManager::instance().devices(DeviceKind::cpu) : devices;
}

void check_devices(const std::vector<Device>& devices, std::string_view strategy) {
  DeviceManager& manager = DeviceManager::instance();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    LOCKSTEP_EXPECTS(devices[i].is_local(), ContextError, strategy, ": device ", devices[i],
                     " belongs to another task. Pass devices of this process.");
    for (std::size_t j = 0; j < i; ++j)
      LOCKSTEP_EXPECTS(
          devices[j] != devices[i], InvalidArgument, strategy, ": device ", devices[i],
          " is listed twice, for replicas ", j, " and ", i,
          ". List each device once; several replicas on one GPU are virtual devices (set_virtual_devices).");
    try {
      manager.open(devices[i]);
    } catch (const NotFound& error) {
      raise<NotFound>(error.context().location, concat(strategy, ": ", error.what()));
    }
  }
}

}  // namespace lockstep::detail
