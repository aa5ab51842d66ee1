#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

#include "detail/process.hpp"
#include "detail/sanitizers.hpp"

namespace lockstep::detail {

inline void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Orders this thread's earlier writes before its later reads.
inline void full_fence() noexcept {
#if LOCKSTEP_THREAD_SANITIZER  // ThreadSanitizer does not know fences
  std::atomic<int> own{0};
  own.exchange(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

/// A place where threads wait for each other. They spin for a while, yield, then sleep, so that waiting is
/// fast if each has a core, and harmless otherwise.
///
/// `ready` must read its state by seq_cst loads. Other threads must change that state by seq_cst stores, or
/// by any stores with a full fence before `wake`: then either the sleeper sees the change, or the thread that
/// made it sees the sleeper.
class Parking {
 public:
  using Clock = std::chrono::steady_clock;
  using Duration = std::chrono::milliseconds;

  Parking() noexcept : awake_() {}
  Parking(const Parking&) = delete;
  Parking& operator=(const Parking&) = delete;
  ~Parking() {
    // In a fork the sleepers do not exist, and the destructor would wait for them.
    const bool has_lost_sleepers = slept_in_.load(std::memory_order_relaxed).is_forked() &&
                                   num_sleepers_.load(std::memory_order_relaxed) != 0;
    if (!has_lost_sleepers) std::destroy_at(&awake_);
  }

  /// Returns true as soon as ready() holds.
  /// @param num_threads  the number of threads that wait for each other.
  /// @param timeout  0: no limit; otherwise wait returns false if ready() does not hold this long after
  /// spinning.
  template <class Ready>
  bool wait(std::uint64_t num_threads, const Ready& ready, Duration timeout = {}) {
    return linger(num_threads, ready) || sleep(ready, timeout);
  }
  /// Returns as soon as ready() holds, or false after about `time`; neither yields nor sleeps.
  template <class Ready>
  static bool spin(const Ready& ready, std::chrono::microseconds time) {
    if (look(ready)) return true;
    const auto end = Clock::now() + time;
    do {
      if (look(ready)) return true;
    } while (Clock::now() < end);
    return false;
  }
  /// Returns as soon as ready() holds, or false after spinning and yielding for as long as that pays.
  template <class Ready>
  static bool linger(std::uint64_t num_threads, const Ready& ready) {
    if (look(ready)) return true;
    // If there are fewer cores than threads, spinning would keep the awaited threads from running.
    if (has_cores_for(num_threads) && spin(ready, kSpinTime)) return true;
    const auto end = Clock::now() + kYieldTime;
    do {
      if (ready()) return true;
      std::this_thread::yield();
    } while (Clock::now() < end);
    return false;
  }
  /// Whether `num_threads` threads can run at the same time, beside those that expect_host_threads counts.
  static bool has_cores_for(std::uint64_t num_threads) noexcept {
    return std::max(num_threads, num_host_threads_.load(std::memory_order_relaxed)) <= kNumCores;
  }
  /// Threads of several processes of this host wait for each other, `num_threads` in all: a thread of this
  /// process must not spin on a core that one of another process needs. Holds until the process ends.
  static void expect_host_threads(std::uint64_t num_threads) noexcept {
    std::uint64_t known = num_host_threads_.load(std::memory_order_relaxed);
    while (known < num_threads && !num_host_threads_.compare_exchange_weak(known, num_threads)) {
    }
  }

  /// Call it after a change that may make another thread's ready() hold.
  void wake() noexcept {
    if (num_sleepers_.load(std::memory_order_seq_cst) != 0) wake_sleepers();
  }

 private:
  // Spinning is limited by the clock, because a pause instruction takes 10 to 70 ns. The limit is longer than
  // the delay between the threads of a small collective, and short because the awaited thread may need this
  // core. Yielding follows for longer than a small step's serial part, because it does no harm: with 50 us a
  // step of 52 us took 56.
  static constexpr std::chrono::microseconds kSpinTime{10};
  static constexpr std::chrono::microseconds kYieldTime{200};
  static constexpr int kSpinsPerLook = 32;
  static inline const std::uint64_t kNumCores = std::thread::hardware_concurrency();
  static inline std::atomic<std::uint64_t> num_host_threads_{0};

  /// Checks ready() several times, which takes about a microsecond.
  template <class Ready>
  static bool look(const Ready& ready) {
    for (int i = 0; i < kSpinsPerLook; ++i) {
      if (ready()) return true;
      relax();
    }
    return false;
  }

  template <class Ready>
  bool sleep(const Ready& ready, Duration timeout) {
    constexpr std::chrono::hours kForEver{24 * 365 * 100};  // a clock cannot count much further
    slept_in_.store(Process(), std::memory_order_relaxed);
    num_sleepers_.fetch_add(1, std::memory_order_seq_cst);
    std::unique_lock lock(mutex_);
    bool woken = true;
    if (timeout.count() > 0 && timeout < kForEver)
      woken = awake_.wait_for(lock, timeout, ready);
    else
      awake_.wait(lock, ready);
    num_sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return woken;
  }

  void wake_sleepers() noexcept;

  std::atomic<int> num_sleepers_{0};
  std::atomic<Process> slept_in_{Process::none()};  // a fork of this process has no sleepers, and wakes none
  std::mutex mutex_;                                // guards no data: it orders falling asleep and waking up
  union {
    std::condition_variable awake_;
  };
};

}  // namespace lockstep::detail
