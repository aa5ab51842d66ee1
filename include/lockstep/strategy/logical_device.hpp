#pragma once

#include <optional>
#include <string_view>

#include <lockstep/device_manager.hpp>

namespace lockstep {

class Strategy;

/// While it lives, variables and work of each replica go to its logical device of one number: what this
/// thread makes in the strategy's scope (outside the scope variables are not the strategy's), its runs, and
/// in a replica function the current device with it. The innermost counts; outside every one it is number 0.
/// Made by StrategyExtended::logical_device and ReplicaContext::logical_device. Must not outlive the
/// strategy.
class [[nodiscard]] LogicalDeviceScope {
 public:
  /// @throws InvalidArgument  the strategy's replicas have no logical device of that number.
  LogicalDeviceScope(const Strategy& strategy, int logical_device);
  ~LogicalDeviceScope();
  LogicalDeviceScope(const LogicalDeviceScope&) = delete;
  LogicalDeviceScope& operator=(const LogicalDeviceScope&) = delete;

  /// The number that counts for calls of `strategy` on this thread.
  static int current(const Strategy& strategy) noexcept;

 private:
  const Strategy& strategy_;
  const int logical_device_;
  LogicalDeviceScope* outer_;
  std::optional<DeviceScope> current_device_;  // in a replica function
};

namespace detail {
/// @throws InvalidArgument  the strategy's replicas have no logical device of that number; names `what`.
void check_logical_device(const Strategy& strategy, int logical_device, std::string_view what);
}  // namespace detail

}  // namespace lockstep
