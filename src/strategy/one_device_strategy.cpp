#include <lockstep/strategy/one_device_strategy.hpp>

namespace lockstep {

OneDeviceStrategy::OneDeviceStrategy(const Device& device)
    : Strategy({.name = "OneDeviceStrategy", .synchronises = false}, {device}, {}, {}) {}

}  // namespace lockstep
