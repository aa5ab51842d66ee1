#pragma once

#include <optional>
#include <string_view>

#include <lockstep/device.hpp>

namespace lockstep::detail {

/// What kinds of strategies differ in. Data, as other threads may ask for it while a strategy is destroyed.
struct StrategyKind {
  std::string_view name;  ///< For messages.
  /// Whether values are combined at all; else every reduction without axes is the identity.
  bool synchronises = true;
  /// Whether datasets can be made for each replica.
  bool has_per_replica_input = false;
  /// The device of state that belongs to no single variable; nothing: as StrategyExtended::non_slot_devices
  /// says.
  std::optional<Device> non_slot_device{};
};

}  // namespace lockstep::detail
