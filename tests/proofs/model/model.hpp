#pragma once

// What the translated sources use in place of std's: Relacy's types, which explore the orders of threads and
// the values that the C++ memory model lets a load see.

// Relacy redefines functions of POSIX as macros: what declares them comes first.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <linux/futex.h>
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

/// The same where the source names no order, which means seq_cst.
rl::memory_order implied_order(const std::source_location& here);

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

/// What holds any value; and threads that sleep until it changes.
struct Word : rl::atomic<std::uint64_t> {
  Word() : rl::atomic<std::uint64_t>(0) {}
  /// The newest value, at which the system looks before it lets a thread sleep.
  std::uint64_t newest() { return fetch_add(0, rl::mo_relaxed, $); }
  rl::waitset<4> sleepers;
};

/// Words that are 0 at first, and data that no two threads may use at the same time, by addresses: for what
/// no constructor makes in an execution, as memory that processes share, and static variables. A suite that
/// explores such has this as its first member.
class Memory {
 public:
  Memory() {
    used_ = this;
    for (auto& data : data_) data($) = 0;
  }
  ~Memory() { used_ = nullptr; }

  static Word& word(const void* address) { return used_->words_[find(used_->word_keys_, address)]; }
  static void read(const void* address) { static_cast<void>(static_cast<int>(data(address)($))); }
  static void write(const void* address) { data(address)($) = 1; }

 private:
  static constexpr std::size_t kMost = 32;
  using Keys = std::array<const void*, kMost>;

  static std::size_t find(Keys& keys, const void* address) {
    for (std::size_t i = 0; i < kMost; ++i) {
      if (keys[i] == nullptr) keys[i] = address;
      if (keys[i] == address) return i;
    }
    std::abort();
  }
  static rl::var<int>& data(const void* address) { return used_->data_[find(used_->data_keys_, address)]; }

  static inline Memory* used_ = nullptr;
  Keys word_keys_{}, data_keys_{};
  Word words_[kMost];
  rl::var<int> data_[kMost];
};

/// What atomics do with their word.
template <class Atomic, class T>
class AtomicAccess {
  using Here = std::source_location;
  using Order = rl::memory_order;

 public:
  T load(Order order) const {
    if (order == rl::mo_seq_cst) see_fences();
    return to(word().load(order, $));
  }
  void store(T value, Order order) const { word().store(from(value), order, $); }
  T exchange(T value, Order order) const { return to(word().exchange(from(value), order, $)); }
  T fetch_add(T value, Order order) const { return to(word().fetch_add(from(value), order, $)); }
  T fetch_sub(T value, Order order) const { return to(word().fetch_sub(from(value), order, $)); }
  T fetch_or(T value, Order order) const { return to(word().fetch_or(from(value), order, $)); }
  bool compare_exchange_strong(T& expected, T value, Order order, Order failure) const {
    std::uint64_t found = from(expected);
    const bool is_done = word().compare_exchange_strong(found, from(value), order, $, failure, $);
    expected = to(found);
    return is_done;
  }
  bool compare_exchange_strong(T& expected, T value, Order order) const {
    const Order failure = order == rl::mo_acq_rel   ? rl::mo_acquire
                          : order == rl::mo_release ? rl::mo_relaxed
                                                    : order;
    return compare_exchange_strong(expected, value, order, failure);
  }
  /// May fail for no reason.
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T value, Orders... orders) const {
    if (rl::rand(8) != 0) return compare_exchange_strong(expected, value, orders...);
    expected = load(rl::mo_relaxed);
    return false;
  }

  T load(Here here = Here::current()) const { return load(implied_order(here)); }
  void store(T value, Here here = Here::current()) const { store(value, implied_order(here)); }
  T fetch_add(T value, Here here = Here::current()) const { return fetch_add(value, implied_order(here)); }
  T fetch_sub(T value, Here here = Here::current()) const { return fetch_sub(value, implied_order(here)); }
  bool compare_exchange_strong(T& expected, T value, Here here = Here::current()) const {
    return compare_exchange_strong(expected, value, implied_order(here));
  }
  operator T() const { return load(rl::mo_seq_cst); }
  T operator++() const { return fetch_add(1, rl::mo_seq_cst) + 1; }

 private:
  Word& word() const { return static_cast<const Atomic&>(*this).word(); }
  static std::uint64_t from(T value) {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<std::uintptr_t>(value);
    else
      return static_cast<std::uint64_t>(value);
  }
  static T to(std::uint64_t value) {
    if constexpr (std::is_pointer_v<T>)
      return reinterpret_cast<T>(value);
    else
      return static_cast<T>(value);
  }
};

template <class T>
class atomic : public AtomicAccess<atomic<T>, T> {
 public:
  atomic() = default;
  atomic(T value) { this->store(value, rl::mo_relaxed); }
  T operator=(T value) {
    this->store(value, rl::mo_seq_cst);
    return value;
  }
  Word& word() const { return word_; }

 private:
  mutable Word word_;
};

/// A static variable, or one in memory that processes share.
template <class T>
class placed_atomic : public AtomicAccess<placed_atomic<T>, T> {
 public:
  constexpr placed_atomic() = default;
  constexpr placed_atomic(T) {}  // 0
  Word& word() const { return Memory::word(this); }

 private:
  [[maybe_unused]] T value_{};
};

template <class T>
class atomic_ref : public AtomicAccess<atomic_ref<T>, T> {
 public:
  explicit atomic_ref(T& value) : value_(&value) {}
  Word& word() const { return Memory::word(value_); }

 private:
  T* value_;
};

/// Data in shared memory.
template <class T>
class plain {
 public:
  plain& operator=(T value) {
    Memory::write(this);
    value_ = value;
    return *this;
  }
  operator T() const {
    Memory::read(this);
    return value_;
  }

 private:
  T value_;
};

/// Copies to memory that is known to threads by its beginning; and from such.
inline void copy(std::span<const std::byte> from, std::byte* to) {
  if (from.empty()) return;
  Memory::write(to);
  std::ranges::copy(from, to);
}
inline void append(std::vector<std::byte>& to, std::span<const std::byte> from) {
  if (from.empty()) return;
  Memory::read(from.data());
  to.insert(to.end(), from.begin(), from.end());
}

/// The system's call that lets threads sleep and wakes them. It tells them nothing of what others have
/// written.
template <class Atomic, class... Rest>
void sleep_or_wake(Atomic* atomic, int operation, std::uint32_t value, const std::timespec* limit, Rest...) {
  Word& word = atomic->word();
  if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_PRIVATE) {
    while (value-- > 0 && word.sleepers.unpark_one(rl::ctx(), $)) {
    }
  } else if (word.newest() == value) {
    word.sleepers.park_current(rl::ctx(), limit != nullptr, true, false, $);
  }
}
template <class Atomic>
void sleep_or_wake(Atomic* atomic, int operation, std::uint32_t value, std::nullptr_t, std::nullptr_t, int) {
  sleep_or_wake(atomic, operation, value, static_cast<const std::timespec*>(nullptr));
}

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

/// An address that is the thread's own.
inline const char* this_thread() {
  static constexpr char kPlaces[4] = {};
  return &kPlaces[rl::thread_index()];
}

inline void yield() { rl::yield(1, $); }
/// Lets the others go on for a while: what follows comes at any moment of theirs.
inline void pause() {
  const atomic<int> place;
  for (unsigned i = rl::rand(2) * rl::rand(64); i > 0; --i) place.load(rl::mo_relaxed);
}
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
    /// A deadline may be over at any moment.
    friend bool operator>=(time_point, std::chrono::steady_clock::time_point) { return rl::rand(3) == 0; }
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
