#include <lockstep/error.hpp>
#include <lockstep/strategy/logical_device.hpp>
#include <lockstep/strategy/strategy.hpp>

namespace lockstep {

LogicalDeviceScope::LogicalDeviceScope(const Strategy& strategy, int logical_device) {
  LOCKSTEP_EXPECTS(logical_device == 0, InvalidArgument, "logical_device(", logical_device, ") of ",
                   strategy.name(), ": a replica has one logical device there, number 0.");
}

}  // namespace lockstep
