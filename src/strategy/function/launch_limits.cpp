#include "strategy/function/launch_limits.hpp"

#include <lockstep/stream.hpp>

#include "collectives/watch/device_watch.hpp"

namespace lockstep::detail {

namespace {

constexpr std::string_view kOperation = "function";

/// Calls fn(group, its watch, local rank, the rank's current stream, limit) where there is a limit.
template <class Fn>
void for_each_limited(ReplicaGroups& groups, const std::vector<std::chrono::milliseconds>& limits, Fn fn) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (limits[g].count() == 0) continue;
    int rank = 0;
    for (backend::DeviceBackend* const device : groups[g].device_backends())
      fn(groups[g], *groups[g].watch(), rank++, current_stream(*device).handle(), limits[g]);
  }
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
  for_each_limited(groups, limits_,
                   [](ReplicaGroup& group, DeviceWatch& watch, int rank, auto stream, auto /*limit*/) {
                     watch.begin(rank, group.rendezvous().last_meeting(0), kOperation, stream);
                   });
}

void LaunchLimits::end_launch(ReplicaGroups& groups) const {
  for_each_limited(groups, limits_, [](ReplicaGroup&, DeviceWatch& watch, int rank, auto stream, auto limit) {
    watch.end(rank, stream, limit);
  });
}

}  // namespace lockstep::detail
