#pragma once

#include <optional>
#include <vector>

#include <lockstep/detail/thread_guard.hpp>
#include <lockstep/device.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

class Strategy;

/// The place of state that belongs to no single variable: `devices`, which with `variable` are that one's.
struct NonSlot {
  std::vector<Device> devices;
  std::optional<Variable> variable;
};

/// While it lives, variables made on this thread in the strategy's cross-replica context get exactly these
/// devices, one component on each. The innermost counts. Made by StrategyExtended::colocate_vars_with.
class [[nodiscard]] ColocationScope : public detail::ThreadGuard<ColocationScope> {
 public:
  ColocationScope(Strategy& strategy, std::vector<Device> devices);

  /// The devices that variables of `strategy` shall have on this thread; null: no scope of it is open.
  [[nodiscard]] static const std::vector<Device>* devices_for(const Strategy& strategy) noexcept;

 private:
  friend class detail::ThreadGuard<ColocationScope>;
  static constexpr std::string_view kGuardName = "a ColocationScope";
  static ColocationScope*& innermost() noexcept;

  Strategy& strategy_;
  std::vector<Device> devices_;
};

}  // namespace lockstep

#pragma GCC visibility pop
