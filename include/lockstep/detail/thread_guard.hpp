#pragma once

#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// Ends the program with a message: another thread cannot undo an effect on the guard's own thread.
[[noreturn]] void destroyed_on_another_thread(std::string_view guard) noexcept;

/// Base of guards. A guard takes effect on the thread that made it until it is destroyed on that thread, in
/// any order. The guards of a thread form a list from the newest to the oldest.
///
/// Guard has, accessible to this class, `static Guard*& innermost() noexcept` (the calling thread's) and
/// kGuardName.
template <class Guard>
class ThreadGuard {
 public:
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;

  /// The guard made before this one; null: none.
  Guard* outer() const noexcept { return outer_; }

 protected:
  ThreadGuard() noexcept : innermost_(Guard::innermost()), outer_(innermost_) {
    innermost_ = static_cast<Guard*>(this);
  }
  ~ThreadGuard() {
    if (&Guard::innermost() != &innermost_) destroyed_on_another_thread(Guard::kGuardName);
    Guard** link = &innermost_;
    while (*link != nullptr && *link != this) link = &static_cast<ThreadGuard*>(*link)->outer_;
    if (*link != nullptr) *link = outer_;
  }

 private:
  Guard*& innermost_;  // the list of the thread that made this guard
  Guard* outer_;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
