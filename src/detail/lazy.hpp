#pragma once

#include <atomic>
#include <mutex>

#include <lockstep/detail/mutex.hpp>

namespace lockstep::detail {

/// An object of the process's, made at its first use and never destroyed, as threads use it whatever
/// std::exit destroys. In place of a function's static variable, for which a fork waits for ever that is made
/// while another thread initialises it. Thread-safe.
template <class T>
class Lazy {
 public:
  /// @param what  for the message; static.
  constexpr explicit Lazy(const char* what) noexcept : mutex_(what) {}

  /// @param make  returns a new T; called again after it threw.
  /// @throws ContextError  this process is a fork of one in which another thread was making it.
  template <class Make>
  T& get(const Make& make) {
    T* const made = made_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make_once(make);
  }

 private:
  template <class Make>
  T& make_once(const Make& make) {
    const std::lock_guard lock(mutex_);
    T* made = made_.load(std::memory_order_relaxed);
    if (made == nullptr) made_.store(made = make(), std::memory_order_release);
    return *made;
  }

  std::atomic<T*> made_{nullptr};
  Mutex mutex_;
};

}  // namespace lockstep::detail
