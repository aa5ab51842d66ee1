#include <lockstep/strategy/one_device_strategy.hpp>

#include "strategy/strategy_config.hpp"

namespace lockstep {

OneDeviceStrategy::OneDeviceStrategy(const Device& device)
    : Strategy(
          {.kind = {.name = "OneDeviceStrategy", .synchronises = false}, .logical_devices = {{device}}}) {}

}  // namespace lockstep
