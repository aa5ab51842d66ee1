#pragma once

#include <string_view>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// Ends the program, with a message: what counts on a thread cannot be taken back from another.
[[noreturn]] void destroyed_on_another_thread(std::string_view guard) noexcept;

/// Base of guards, which count on the thread that made them until they are destroyed there, in any order.
/// They form a list, the last one made first.
///
/// Guard has `static Guard*& innermost() noexcept`, the calling thread's, and kGuardName, both for this
/// class.
template <class Guard>
class ThreadGuard {
 public:
  ThreadGuard(const ThreadGuard&) = delete;
  ThreadGuard& operator=(const ThreadGuard&) = delete;

  /// The one made before it; null: none.
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
  Guard*& innermost_;  // the thread's, by which it is known
  Guard* outer_;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
