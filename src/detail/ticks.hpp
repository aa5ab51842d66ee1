#pragma once

#include <cstdint>
#include <ctime>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace lockstep::detail {

/// CLOCK_MONOTONIC in nanoseconds. For signal handlers, too.
inline std::uint64_t clock_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// The processor's clock, which is read in a third of the time; where it has none, nanoseconds.
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return clock_ns();
#endif
}

/// A moment on both clocks: two of them tell how long a tick is.
struct ClockPair {
  std::uint64_t tick = ticks();
  std::uint64_t ns = clock_ns();
};

/// Nanoseconds from `tick` to `now`. @param begin  earlier than now.
inline std::uint64_t ns_since(std::uint64_t tick, const ClockPair& begin, const ClockPair& now) noexcept {
  if (tick >= now.tick || now.tick <= begin.tick) return 0;
  const double ns_per_tick =
      static_cast<double>(now.ns - begin.ns) / static_cast<double>(now.tick - begin.tick);
  return static_cast<std::uint64_t>(static_cast<double>(now.tick - tick) * ns_per_tick);
}

}  // namespace lockstep::detail
