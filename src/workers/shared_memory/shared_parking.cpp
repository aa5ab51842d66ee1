#include "workers/shared_memory/shared_parking.hpp"

#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::detail {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace

// Not the private kind of futex, which other processes do not see.
void SharedParking::sleep(std::uint32_t turn, const backend::Deadline& deadline) noexcept {
  std::timespec until{};
  if (deadline) {  // steady_clock is CLOCK_MONOTONIC, in which the system takes it
    const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch());
    until = {static_cast<std::time_t>(time.count() / 1'000'000'000),
             static_cast<long>(time.count() % 1'000'000'000)};
  }
  ::syscall(SYS_futex, &turn_, FUTEX_WAIT_BITSET, turn, deadline ? &until : nullptr, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

void SharedParking::wake_sleepers() noexcept {
  turn_.fetch_add(1, std::memory_order_seq_cst);
  ::syscall(SYS_futex, &turn_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lockstep::detail
