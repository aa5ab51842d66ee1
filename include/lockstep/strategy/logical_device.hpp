#pragma once

namespace lockstep {

class Strategy;

/// While it lives, variables and work of a replica go to one of its logical devices. Every strategy so far
/// has one for each replica, number 0. Made by StrategyExtended::logical_device and
/// ReplicaContext::logical_device.
class [[nodiscard]] LogicalDeviceScope {
 public:
  /// @throws InvalidArgument  the strategy has no logical device of that number.
  LogicalDeviceScope(const Strategy& strategy, int logical_device);
  ~LogicalDeviceScope() = default;
  LogicalDeviceScope(const LogicalDeviceScope&) = delete;
  LogicalDeviceScope& operator=(const LogicalDeviceScope&) = delete;
};

}  // namespace lockstep
