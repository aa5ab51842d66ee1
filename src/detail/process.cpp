#include "detail/process.hpp"

#include <atomic>

#include <pthread.h>

#include "detail/leaf_mutexes.hpp"

namespace lockstep::detail {

namespace {

// A counter, because a system call for the process id takes a considerable part of a small collective's time.
std::atomic<std::uint64_t> this_number{1};
[[maybe_unused]] const int watches_forks = ::pthread_atfork(lock_leaf_mutexes, unlock_leaf_mutexes, [] {
  this_number.fetch_add(1, std::memory_order_relaxed);
  unlock_leaf_mutexes();
});

}  // namespace

std::uint64_t Process::number() noexcept { return this_number.load(std::memory_order_relaxed); }

}  // namespace lockstep::detail
