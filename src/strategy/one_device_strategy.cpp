#include <lockstep/strategy/one_device_strategy.hpp>

#include "strategy/strategy_kind.hpp"

namespace lockstep {

OneDeviceStrategy::OneDeviceStrategy(const Device& device)
    : Strategy({.name = "OneDeviceStrategy", .synchronises = false}, {device}, {}, {}) {}

}  // namespace lockstep
