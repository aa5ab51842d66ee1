#include "strategy/function/launch_limits.hpp"

#include <lockstep/stream.hpp>

#include "collectives/watch/device_watch.hpp"

namespace lockstep::detail {

namespace {

constexpr std::string_view kOperation = "function";

/// Calls fn(group, its watch, its limit) for those that have a limit.
template <class Fn>
void for_each_limited(ReplicaGroups& groups, const std::vector<std::chrono::milliseconds>& limits, Fn fn) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (limits[g].count() > 0) fn(groups[g], *groups[g].watch(), limits[g]);
}

}  // namespace

void LaunchLimits::begin_capture(ReplicaGroups& groups) {
  limits_.assign(groups.size(), std::chrono::milliseconds(0));
  for (ReplicaGroup& group : groups)
    if (DeviceWatch* const watch = group.watch()) watch->begin_capture();
}

void LaunchLimits::end_capture(ReplicaGroups& groups) {
  for (std::size_t g = 0; g < limits_.size(); ++g)
    if (DeviceWatch* const watch = groups[g].watch()) limits_[g] = watch->end_capture();
}

void LaunchLimits::begin_launch(ReplicaGroups& groups) const {
  for (ReplicaGroup& group : groups) group.meet_all({.operation = kOperation, .enqueues = true}, {}, {});
  for_each_limited(groups, limits_, [](ReplicaGroup& group, DeviceWatch& watch, std::chrono::milliseconds) {
    const std::uint64_t number = group.rendezvous().last_meeting(0);
    for (int i = 0; i < static_cast<int>(group.devices().size()); ++i) {
      backend::DeviceBackend& device = *group.device_backends()[static_cast<std::size_t>(i)];
      watch.begin(i, number, kOperation, current_stream(device).handle());
    }
  });
}

void LaunchLimits::end_launch(ReplicaGroups& groups) const {
  for_each_limited(groups, limits_,
                   [](ReplicaGroup& group, DeviceWatch& watch, std::chrono::milliseconds limit) {
                     for (int i = 0; i < static_cast<int>(group.devices().size()); ++i) {
                       backend::DeviceBackend& device = *group.device_backends()[static_cast<std::size_t>(i)];
                       watch.end(i, current_stream(device).handle(), limit);
                     }
                   });
}

}  // namespace lockstep::detail
