#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <unordered_set>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/detail/recycling_allocator.hpp>
#include <lockstep/device.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::host {

/// The streams or the events of one device. Work on the host is done before a call returns, so a handle is
/// only a number, never reused in a process. The set of existing handles detects the use of destroyed ones.
/// Thread-safe.
template <class Handle>
class HostHandles {
 public:
  /// @param noun  "stream" or "event", for messages.
  HostHandles(std::string_view noun, const Device& device) : noun_(noun), device_(device) {}

  Handle create() {
    static std::atomic<std::uintptr_t> last{0};
    const std::uintptr_t number = ++last;
    const std::lock_guard lock(mutex_);
    alive_.insert(number);
    return Handle{number};
  }

  void destroy(Handle handle) noexcept {
    const std::lock_guard lock(mutex_);
    alive_.erase(static_cast<std::uintptr_t>(handle));
  }

  /// @param operation  for the message.
  /// @throws ContextError  the handle was destroyed, or belongs to another device.
  void check(Handle handle, std::string_view operation) const {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_EXPECTS(alive_.contains(static_cast<std::uintptr_t>(handle)), ContextError, operation, " on ",
                     device_, ": ", noun_, " ", static_cast<std::uintptr_t>(handle),
                     " is not one of this device's, or was destroyed. Keep the ", noun_,
                     "'s owner alive while it is used.");
  }

 private:
  const std::string_view noun_;
  const Device& device_;
  mutable detail::LeafMutex mutex_;  // guards alive_
  std::unordered_set<std::uintptr_t, std::hash<std::uintptr_t>, std::equal_to<>,
                     detail::RecyclingAllocator<std::uintptr_t>>
      alive_;
};

}  // namespace lockstep::host
