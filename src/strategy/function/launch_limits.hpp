#pragma once

#include <chrono>
#include <vector>

#include "strategy/runtime/replica_groups.hpp"

namespace lockstep::detail {

/// The time limits of the collectives that a function's graphs have captured. They hold for each launch as a
/// whole, as nobody sees where in a graph a device is.
class LaunchLimits {
 public:
  /// The strategy's collectives are captured until end_capture, which is also called when that has failed.
  void begin_capture(ReplicaGroups& groups);
  void end_capture(ReplicaGroups& groups);

  /// The graphs are about to be launched, after work on the replicas' current streams: a call of all
  /// replicas, which reports list as "function".
  void begin_launch(ReplicaGroups& groups) const;
  /// They are launched: the limit counts from when a device comes to them. @pre begin_launch
  void end_launch(ReplicaGroups& groups) const;

 private:
  std::vector<std::chrono::milliseconds> limits_;  // of groups; 0: none
};

}  // namespace lockstep::detail
