#include "detail/process.hpp"

#include <atomic>

#include <pthread.h>

namespace lockstep::detail {

namespace {

// Counted, as asking the system for the process's number takes a good part of a small collective's time.
std::atomic<std::uint64_t> number{1};
[[maybe_unused]] const int counts_forks =
    ::pthread_atfork(nullptr, nullptr, [] { number.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

std::uint64_t Process::current() noexcept { return number.load(std::memory_order_relaxed); }

}  // namespace lockstep::detail
