#include "detail/parking.hpp"

namespace lockstep::detail {

void Parking::wake_sleepers() noexcept {
  if (slept_in_.load(std::memory_order_relaxed).is_forked()) return;
  // A thread that has counted itself but does not sleep yet holds the lock until it sleeps, or will see the
  // change.
  { std::lock_guard lock(mutex_); }
  awake_.notify_all();
}

}  // namespace lockstep::detail
