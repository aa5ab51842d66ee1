#pragma once

#include <cstdint>

#include <lockstep/detail/function_ref.hpp>

#include "strategy/runtime/replica_groups.hpp"
#include "strategy/runtime/replica_threads.hpp"
#include "strategy/runtime/run_failures.hpp"

namespace lockstep::detail {

/// Beyond this many bytes a host replica's pass over memory outweighs waking the replicas' threads (about 10
/// µs, or 100 KiB at 10 GB/s).
inline constexpr std::int64_t kThreadedBytes = 256 * 1024;

/// Runs functions for every local replica at the same time, each on its replica's thread.
/// @pre the calling thread is in a call of the strategy (StrategyCalls::Call).
class ReplicaExecutor {
 public:
  /// All outlive this. @param parameter_device  of variables; null: the replicas'.
  ReplicaExecutor(const Strategy& strategy, ReplicaGroups& groups, backend::DeviceBackend* parameter_device);

  ReplicaThreads& threads() noexcept { return threads_; }

  /// Calls fn(i) for every replica i, in the calling thread's guards. When one throws, those that wait for it
  /// are released. Rethrows the lowest replica's exception; one that is only the consequence of another's
  /// counts only if there is no other.
  /// @param failures  takes each error when it is thrown, and the log a time-out; null: neither does.
  void run(FunctionRef<void(int)> fn, RunFailures* failures = nullptr);

  /// Work of the library's own on every replica's device: on the replicas' threads where `bytes` are worth
  /// it, else on this one. fn must not wait for another replica.
  void for_each(std::int64_t bytes, FunctionRef<void(int)> fn);
  bool are_worth_threads(std::int64_t bytes) const;

 private:
  const Strategy& strategy_;
  ReplicaGroups& groups_;
  backend::DeviceBackend* const parameter_device_;
  ReplicaThreads threads_;
};

}  // namespace lockstep::detail
