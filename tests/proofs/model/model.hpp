#pragma once

// What the translated sources use in place of std's: Relacy's types, which explore the orders of threads and
// the values that the C++ memory model lets a load see.

// Relacy redefines functions of POSIX as macros: what declares them comes first.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>

#include <pthread.h>
#include <semaphore.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#include <relacy/relacy.hpp>
#pragma GCC diagnostic pop
// Macros that are for Relacy's own users.
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst
#undef errno
#define errno (*__errno_location())
#include <cassert>

namespace lockstep::model {

/// The order of an access at that place of the source; a weaker one where the place is weakened.
rl::memory_order order(const char* file, int line, rl::memory_order written);

/// What Relacy can print, for an enumeration its number.
template <class T, bool = std::is_enum_v<T>>
struct Stored {
  using type = T;
};
template <class T>
struct Stored<T, true> {
  using type = int;
};

/// Number of threads of the suite that runs.
inline int num_threads = 0;

/// Before a seq_cst load: it sees what threads have stored before their seq_cst fences until now
/// ([atomics.order]), which Relacy knows of fences alone.
template <int N = 4>
void see_fences() {
  if (num_threads < N) {
    if constexpr (N > 1) return see_fences<N - 1>();
  }
  rl::context& context = rl::ctx();
  auto& thread = static_cast<rl::thread_info<N>&>(*context.threadx_);
  for (int i = 0; i < N; ++i)
    thread.acq_rel_order_[i] = std::max(thread.acq_rel_order_[i], context.seq_cst_fence_order_[i]);
}

template <class T>
class atomic {
  using Value = typename Stored<T>::type;

 public:
  atomic() : value_(Value()) {}
  atomic(T value) : value_(static_cast<Value>(value)) {}

  T load(rl::memory_order order = rl::mo_seq_cst) const {
    if (order == rl::mo_seq_cst) see_fences();
    return static_cast<T>(value_.load(order, $));
  }
  void store(T value, rl::memory_order order = rl::mo_seq_cst) {
    value_.store(static_cast<Value>(value), order, $);
  }
  T exchange(T value, rl::memory_order order = rl::mo_seq_cst) { return value_.exchange(value, order, $); }
  T fetch_add(T value, rl::memory_order order = rl::mo_seq_cst) { return value_.fetch_add(value, order, $); }
  T fetch_sub(T value, rl::memory_order order = rl::mo_seq_cst) { return value_.fetch_sub(value, order, $); }
  T fetch_or(T value, rl::memory_order order = rl::mo_seq_cst) { return value_.fetch_or(value, order, $); }
  bool compare_exchange_strong(T& expected, T value, rl::memory_order order = rl::mo_seq_cst) {
    return value_.compare_exchange_strong(expected, value, order, $);
  }
  operator T() const { return load(); }
  T operator=(T value) {
    store(value);
    return value;
  }

 private:
  mutable rl::atomic<Value> value_;
};

inline void fence(rl::memory_order order) {
  if (order != rl::mo_relaxed) rl::atomic_thread_fence(order, $);
}

class mutex {
 public:
  void lock() { mutex_.lock($); }
  bool try_lock() { return mutex_.try_lock($); }
  void unlock() { mutex_.unlock($); }

 private:
  friend class condition_variable;
  rl::mutex mutex_;
};

class condition_variable {
 public:
  void notify_all() noexcept { condition_.notify_all($); }
  template <class Ready>
  void wait(std::unique_lock<mutex>& lock, const Ready& ready) {
    while (!ready()) condition_.wait(lock.mutex()->mutex_, $);
  }
  /// The time may be over at any moment.
  template <class Duration, class Ready>
  bool wait_for(std::unique_lock<mutex>& lock, const Duration&, const Ready& ready) {
    while (!ready()) {
      if (rl::rand(2) == 0) return ready();
      condition_.wait(lock.mutex()->mutex_, $);
    }
    return true;
  }

 private:
  rl::condition_variable condition_;
};

inline void yield() { rl::yield(1, $); }
/// Whether a waiter looks again before it sleeps.
inline bool may_linger() { return rl::rand(4) == 0; }

/// Every time limit on it is over at once: nobody spins for long.
struct clock {
  struct time_point {
    template <class Duration>
    friend time_point operator+(time_point point, Duration) {
      return point;
    }
    friend bool operator<(time_point, time_point) { return false; }
  };
  static time_point now() { return {}; }
};

/// In place of detail::Mutex, whose forks are not modelled.
class OwnedMutex : public mutex {
 public:
  explicit OwnedMutex(const char*) {}
  bool lock_unless_lost() {
    lock();
    return true;
  }
};

}  // namespace lockstep::model

namespace lockstep::detail {
namespace model = lockstep::model;
}
