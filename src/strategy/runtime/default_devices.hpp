#pragma once

#include <string_view>
#include <vector>

#include <lockstep/device.hpp>

namespace lockstep::detail {

/// `devices`; if it is empty all GPUs; without GPUs the host replicas.
std::vector<Device> or_default_devices(std::vector<Device> devices);

/// @throws InvalidArgument  a device is there twice. @throws ContextError  it is another task's. @throws
/// NotFound  there is none.
void check_devices(const std::vector<Device>& devices, std::string_view strategy);

}  // namespace lockstep::detail
