#include "detail/parking.hpp"

namespace lockstep::detail {

void Parking::wake_sleepers() noexcept {
  if (slept_in_.load(std::memory_order_relaxed).is_forked()) return;
  // Whoever counted itself but does not sleep yet holds the lock until it does, or will see the change.
  { std::lock_guard lock(mutex_); }
  awake_.notify_all();
}

}  // namespace lockstep::detail
