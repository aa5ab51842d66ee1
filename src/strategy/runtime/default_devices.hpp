#pragma once

#include <vector>

#include <lockstep/device.hpp>

namespace lockstep::detail {

/// `devices`; if it is empty all GPUs; without GPUs the host replicas.
std::vector<Device> or_default_devices(std::vector<Device> devices);

}  // namespace lockstep::detail
