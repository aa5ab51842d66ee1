#pragma once

#include <atomic>
#include <cstdint>

#pragma GCC visibility push(default)

/// Mutexes that do not keep a fork of the process waiting for threads that it does not have.
namespace lockstep::detail {

/// A mutex of an object's. A fork of the process that another thread held it in has lost it: nobody there
/// unlocks it, and what it guards may be half written. As std::mutex otherwise.
class Mutex {
 public:
  /// @param owner  what it is part of, for the message: "a variable"; static.
  constexpr explicit Mutex(const char* owner) noexcept : owner_(owner) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  /// @throws ContextError  it is lost.
  void lock();
  /// False: it is held, or lost.
  bool try_lock() noexcept;
  /// For who must not throw. @return false: it is lost, and what it guards is to be left alone.
  bool lock_unless_lost() noexcept;
  void unlock() noexcept;

  /// Once true, so for ever; while this thread runs it does not become true.
  bool is_lost() const noexcept;
  /// @throws ContextError  it is lost.
  void check() const {
    if (is_lost()) raise_lost();
  }

 private:
  bool lock_held() noexcept;
  [[noreturn]] void raise_lost() const;

  std::atomic<std::uint32_t> state_{0};  // 0: free; else twice the holder's process, plus 1: threads may wait
  const char* const owner_;
};

/// The same for a thread that may hold it already.
class RecursiveMutex {
 public:
  constexpr explicit RecursiveMutex(const char* owner) noexcept : mutex_(owner) {}

  /// @throws ContextError  it is lost.
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

/// A mutex that a fork finds free, and what it guards whole: the fork waits for that, for this and all its
/// like. So it is held for moments, in which its holder locks no other mutex, of this kind or another, and
/// calls nothing but what takes and frees memory of malloc's or recycled memory. One of a fixed number, which
/// objects share.
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
