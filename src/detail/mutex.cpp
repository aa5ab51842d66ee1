#include <array>
#include <cstddef>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/leaf_mutexes.hpp"
#include "detail/process.hpp"

namespace lockstep::detail {

namespace {

/// The state of a mutex that this process holds.
std::uint32_t held() noexcept { return static_cast<std::uint32_t>(Process::number()) << 1; }

constexpr std::uint32_t kWaiters = 1;

// std::atomic's wait would first yield its core a few times: a thread that locks and unlocks in a loop would
// then keep the mutex from waiters for a tenth of a second.
void wait_while(std::atomic<std::uint32_t>& state, std::uint32_t value) noexcept {
  ::syscall(SYS_futex, &state, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake_one(std::atomic<std::uint32_t>& state) noexcept {
  ::syscall(SYS_futex, &state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// The address identifies a thread; a fork's thread has the address of the thread that forked.
thread_local const char this_thread = 0;

// Each has its own cache line, because most of them serve a single object.
struct alignas(64) Leaf {
  Mutex mutex{"shared memory"};
};
constinit std::array<Leaf, 64> leaves;
std::atomic<std::size_t> num_given_out{0};

}  // namespace

constinit Mutex recycled_memory_mutex{"recycled memory"};

bool Mutex::try_lock() noexcept {
  std::uint32_t state = 0;
  return state_.compare_exchange_strong(state, held(), std::memory_order_acquire, std::memory_order_relaxed);
}

bool Mutex::lock_unless_lost() noexcept { return try_lock() || lock_held(); }

void Mutex::lock() {
  if (!lock_unless_lost()) raise_lost();
}

// A thread that has waited sets kWaiters, because it cannot tell whether others still wait.
bool Mutex::lock_held() noexcept {
  const std::uint32_t mine = held();
  for (;;) {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    if (state == 0) {
      if (state_.compare_exchange_weak(state, mine | kWaiters, std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return true;
    } else if ((state & ~kWaiters) != mine) {
      return false;
    } else if (state == (mine | kWaiters) ||
               state_.compare_exchange_weak(state, mine | kWaiters, std::memory_order_relaxed)) {
      wait_while(state_, mine | kWaiters);
    }
  }
}

void Mutex::unlock() noexcept {
  if (state_.exchange(0, std::memory_order_release) & kWaiters) wake_one(state_);
}

bool Mutex::is_lost() const noexcept {
  const std::uint32_t state = state_.load(std::memory_order_relaxed);
  return state != 0 && (state & ~kWaiters) != held();
}

void Mutex::raise_lost() const {
  raise<ContextError>({__FILE__, __LINE__, __func__},
                      concat("The use of ", owner_,
                             ": this process is a fork, made while another thread of its parent was using "
                             "that too, and has none of the parent's threads. Fork before other threads use "
                             "what the child needs, or make it anew there, or exec a program."));
}

bool RecursiveMutex::is_mine() const noexcept {
  // A thread of a fork may have the address of a thread that only the parent has.
  return holder_.load(std::memory_order_relaxed) == &this_thread && !is_lost();
}

void RecursiveMutex::own() noexcept {
  holder_.store(&this_thread, std::memory_order_relaxed);
  ++depth_;
}

void RecursiveMutex::lock() {
  if (!is_mine()) mutex_.lock();
  own();
}

bool RecursiveMutex::try_lock() noexcept {
  if (!is_mine() && !mutex_.try_lock()) return false;
  own();
  return true;
}

bool RecursiveMutex::lock_unless_lost() noexcept {
  if (!is_mine() && !mutex_.lock_unless_lost()) return false;
  own();
  return true;
}

void RecursiveMutex::unlock() noexcept {
  if (--depth_ > 0) return;
  holder_.store(nullptr, std::memory_order_relaxed);
  mutex_.unlock();
}

LeafMutex::LeafMutex() noexcept
    : mutex_(leaves[num_given_out.fetch_add(1, std::memory_order_relaxed) % leaves.size()].mutex) {}

void lock_leaf_mutexes() noexcept {
  for (Leaf& leaf : leaves) static_cast<void>(leaf.mutex.lock_unless_lost());
  static_cast<void>(recycled_memory_mutex.lock_unless_lost());
}

void unlock_leaf_mutexes() noexcept {
  recycled_memory_mutex.unlock();
  for (Leaf& leaf : leaves) leaf.mutex.unlock();
}

}  // namespace lockstep::detail
