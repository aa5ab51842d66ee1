#pragma once

#include <vector>

#include <lockstep/device.hpp>

namespace lockstep::detail {

/// `devices`, or where there are none all GPUs, or without any the host replicas.
std::vector<Device> or_default_devices(std::vector<Device> devices);

}  // namespace lockstep::detail
