#pragma once

#include <atomic>
#include <mutex>

#include <lockstep/detail/mutex.hpp>

namespace lockstep::detail {

/// The process's only object of a kind, made at its first use and never destroyed, because threads use it
/// while std::exit destroys other objects. It replaces a function's static variable: if another thread
/// initialises such a variable during a fork, the child waits for it for ever. Thread-safe.
template <class T>
class Lazy {
 public:
  /// @param what  the object and its state for the message; static text.
  constexpr explicit Lazy(const char* what) noexcept : mutex_(what) {}

  /// @param make  returns a new T; called again after it threw.
  /// @throws ContextError  this process is a fork that was made while another thread was making the object.
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
