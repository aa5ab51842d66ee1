#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <vector>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/strategy/strategy.hpp>

namespace lockstep::detail {

/// The failures of a strategy's last run, at most one per local replica. Any thread may ask for them, also
/// while the run is under way.
class RunFailures {
 public:
  /// @param first_replica  the id of local replica 0.
  RunFailures(int first_replica, int num_local_replicas)
      : first_replica_(first_replica), errors_(static_cast<std::size_t>(num_local_replicas)) {}

  /// @pre for one replica, one thread at a time: the replica's, or outside its functions the run's.
  void set(std::size_t replica, std::exception_ptr error) noexcept;
  void clear() noexcept {
    for (std::size_t replica = 0; replica < errors_.size(); ++replica) set(replica, nullptr);
  }
  /// Lowest replica first.
  std::vector<ReplicaFailure> list() const;

 private:
  const int first_replica_;
  mutable LeafMutex mutex_;                 // guards errors_
  std::vector<std::exception_ptr> errors_;  // one per local replica; null: none
};

/// The error in place of a Released that no failure of this run has thrown: a function kept it from another
/// run.
std::exception_ptr late_release(int replica);

}  // namespace lockstep::detail
