#pragma once

#include <optional>
#include <string_view>

#include <lockstep/detail/thread_guard.hpp>
#include <lockstep/device_manager.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class Strategy;

/// While it lives, variables and work of each replica go to its logical device of one number. That holds for
/// variables that this thread makes in the strategy's scope (outside it they are not the strategy's), for the
/// thread's runs, and in a replica function for the current device. The innermost scope counts; outside every
/// one the number is 0.
/// Made by StrategyExtended::logical_device and ReplicaContext::logical_device. Must not outlive the
/// strategy.
class [[nodiscard]] LogicalDeviceScope : public detail::ThreadGuard<LogicalDeviceScope> {
 public:
  /// @throws InvalidArgument  the strategy's replicas have no logical device of that number.
  LogicalDeviceScope(const Strategy& strategy, int logical_device);

  /// The number that counts for calls of `strategy` on this thread.
  [[nodiscard]] static int current(const Strategy& strategy) noexcept;

 private:
  friend class detail::ThreadGuard<LogicalDeviceScope>;
  static constexpr std::string_view kGuardName = "a LogicalDeviceScope";
  static LogicalDeviceScope*& innermost() noexcept;

  const Strategy& strategy_;
  const int logical_device_;
  std::optional<DeviceScope> current_device_;  // in a replica function
};

namespace detail {
/// @throws InvalidArgument  the strategy's replicas have no logical device of that number; names `what`.
void check_logical_device(const Strategy& strategy, int logical_device, std::string_view what);
}  // namespace detail

}  // namespace lockstep

#pragma GCC visibility pop
