#pragma once

#include <algorithm>
#include <ctime>

#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// All clocks are one, which shows this when the simulation begins.
constexpr std::time_t kBeginSeconds = 1'700'000'000;

inline Time duration(const timespec& time) {
  constexpr std::time_t kLongest = 100'000'000;
  return std::min(time.tv_sec, kLongest) * kSecond + time.tv_nsec;
}
inline Time since_begin(const timespec& time) {
  return duration({time.tv_sec - kBeginSeconds, time.tv_nsec});
}
inline timespec shown(Time time) { return {kBeginSeconds + time / kSecond, time % kSecond}; }

/// The processor's clock, which reports of failures read, is the simulation's too, in this thread and those
/// that it starts.
void take_clock_of_processor();

}  // namespace lockstep::simulation
