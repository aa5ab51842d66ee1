#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include <lockstep/lockstep.hpp>

#include "support/input.hpp"
#include "support/num_allocations.hpp"

/// How often steps allocate from the heap, on all threads, after a few first ones. Threads that free and
/// allocate in a new order may need one more block, so the result is the least of several windows of steps.
namespace lockstep::test {

inline constexpr int kFirstSteps = 20, kSteps = 20, kWindows = 10;

inline MirroredStrategy host_strategy(int n) { return MirroredStrategy(host_devices(n)); }

inline std::unique_ptr<Strategy> host_or_central(int n, bool is_central) {
  if (is_central) return std::make_unique<CentralStorageStrategy>(host_devices(n), Device("CPU:0"));
  return std::make_unique<MirroredStrategy>(host_devices(n));
}

/// In kSteps calls of `step`. @param expected  so many are few enough.
template <class Step>
std::int64_t allocations_of(const Step& step, std::int64_t expected = 0) {
  for (int i = 0; i < kFirstSteps; ++i) step();
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int window = 0; window < kWindows && least > expected; ++window) {
    const std::int64_t before = num_allocations();
    for (int i = 0; i < kSteps; ++i) step();
    least = std::min(least, num_allocations() - before);
  }
  return least;
}

/// In kSteps calls of `step` on every replica, within one run. @param expected  so many are few enough.
inline std::int64_t allocations_in_run(Strategy& strategy, const std::function<void(ReplicaContext&)>& step,
                                       std::int64_t expected = 0) {
  std::int64_t before = 0, after = 0, least = std::numeric_limits<std::int64_t>::max();
  strategy.run([&](ReplicaContext& context) {
    const auto all_are_here = [&] { context.merge_call([](Strategy&) {}); };
    const auto count = [&](std::int64_t& into) {
      all_are_here();
      if (context.replica_id_in_sync_group() == 0) into = num_allocations();
      all_are_here();
    };
    for (int i = 0; i < kFirstSteps; ++i) step(context);
    std::int64_t seen = std::numeric_limits<std::int64_t>::max();  // the same on every replica
    for (int window = 0; window < kWindows && seen > expected; ++window) {
      count(before);
      for (int i = 0; i < kSteps; ++i) step(context);
      count(after);
      seen = std::min(seen, after - before);
    }
    if (context.replica_id_in_sync_group() == 0) least = seen;
  });
  return least;
}

}  // namespace lockstep::test
