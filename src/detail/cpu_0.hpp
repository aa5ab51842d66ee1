#pragma once

#include <lockstep/device.hpp>

namespace lockstep::detail {

/// CPU:0 of this process, never destroyed. Takes no lock.
const Device& cpu_0();

}  // namespace lockstep::detail
