#include "detail/parking.hpp"

namespace lockstep::detail {

void Parking::wake_sleepers() noexcept {
  // Whoever counted itself but does not sleep yet holds the lock until it does, or will see the change.
  { std::lock_guard lock(mutex_); }
  awake_.notify_all();
}

}  // namespace lockstep::detail
