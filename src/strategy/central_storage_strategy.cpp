#include <lockstep/device_manager.hpp>
#include <lockstep/strategy/central_storage_strategy.hpp>

#include "strategy/runtime/default_devices.hpp"
#include "strategy/strategy_config.hpp"

namespace lockstep {

namespace {

Device default_parameter_device(const std::vector<Device>& workers) {
  return workers.size() == 1 && workers[0].kind() == DeviceKind::gpu ? workers[0] : Device("CPU:0");
}

}  // namespace

CentralStorageStrategy::CentralStorageStrategy() : CentralStorageStrategy(std::vector<Device>()) {}

CentralStorageStrategy::CentralStorageStrategy(std::initializer_list<Device> worker_devices,
                                               const Device& parameter_device,
                                               const CommunicationOptions& options)
    : CentralStorageStrategy(std::vector<Device>(worker_devices), parameter_device, options) {}

CentralStorageStrategy::CentralStorageStrategy(std::vector<Device> worker_devices,
                                               const Device& parameter_device,
                                               const CommunicationOptions& options)
    : Strategy({.kind = {.name = "CentralStorageStrategy"},
                .logical_devices = {detail::or_default_devices(std::move(worker_devices))},
                .parameter_devices = {parameter_device},
                .options = options}) {}

CentralStorageStrategy::CentralStorageStrategy(std::initializer_list<Device> worker_devices,
                                               const CommunicationOptions& options)
    : CentralStorageStrategy(std::vector<Device>(worker_devices), options) {}

CentralStorageStrategy::CentralStorageStrategy(std::vector<Device> worker_devices,
                                               const CommunicationOptions& options)
    : CentralStorageStrategy(worker_devices,
                             default_parameter_device(detail::or_default_devices(worker_devices)), options) {}

}  // namespace lockstep
