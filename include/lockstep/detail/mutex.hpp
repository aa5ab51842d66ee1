#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)

/// Mutexes with which a forked process does not wait for threads that exist only in its parent.
namespace lockstep::detail {

/// A mutex that belongs to an object. If another thread held it at a fork, it is lost in the child: no thread
/// there can unlock it, and the data it guards may be half written. Otherwise it works like std::mutex.
class Mutex {
 public:
  /// @param owner  the object it belongs to, for messages: "a variable"; static text.
  constexpr explicit Mutex(const char* owner) noexcept : owner_(owner) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  /// @throws ContextError  the mutex is lost.
  void lock();
  /// @return false if it is held or lost.
  bool try_lock() noexcept;
  /// For callers that must not throw. @return false if it is lost; the guarded data must then not be touched.
  bool lock_unless_lost() noexcept;
  void unlock() noexcept;

  /// Stays true once it is true, and does not become true while this thread runs.
  bool is_lost() const noexcept;
  /// @throws ContextError  the mutex is lost.
  void check() const {
    if (is_lost()) raise_lost();
  }

 private:
  bool lock_held() noexcept;
  [[noreturn]] void raise_lost() const;

  std::atomic<std::uint32_t> state_{0};  // 0: free; else 2 · (process id), plus 1 if threads may wait
  const char* const owner_;
};

/// A Mutex that the holding thread may lock again.
class RecursiveMutex {
 public:
  constexpr explicit RecursiveMutex(const char* owner) noexcept : mutex_(owner) {}

  /// @throws ContextError  the mutex is lost.
  void lock();
  bool try_lock() noexcept;
  bool lock_unless_lost() noexcept;
  void unlock() noexcept;
  bool is_lost() const noexcept { return mutex_.is_lost(); }

 private:
  bool is_mine() const noexcept;
  void own() noexcept;

  Mutex mutex_;
  std::atomic<const void*> holder_{nullptr};  // the thread
  int depth_ = 0;                             // guarded by mutex_
};

/// A mutex that is always free after a fork, with its data consistent, because the fork waits until all such
/// mutexes are free. It may therefore be held only briefly: its holder locks no other mutex of any kind, and
/// calls nothing but allocation and release of malloc's or recycled memory. Objects share a fixed number of
/// these mutexes.
class LeafMutex {
 public:
  LeafMutex() noexcept;
  LeafMutex(const LeafMutex&) = delete;
  LeafMutex& operator=(const LeafMutex&) = delete;

  void lock() noexcept { static_cast<void>(mutex_.lock_unless_lost()); }
  bool try_lock() noexcept { return mutex_.try_lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace lockstep::detail

#pragma GCC visibility pop
