#pragma once

#include <string>

#include "detail/concat.hpp"
#include "simulation/plan.hpp"
#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// Ends the simulation.
[[noreturn]] inline void fail(int worker, const std::string& what) {
  System::current()->fail(detail::concat("worker ", worker, ": ", what));
}

/// Calls f, which returns or throws within the limit.
template <class F>
auto within_limit(int worker, const char* what, Time limit, const F& f) {
  struct Watch {
    ~Watch() {
      const Time time = System::current()->now() - begin;
      if (time > limit)
        fail(worker, detail::concat(what, " took ", time / kMillisecond, " ms of ", limit / kMillisecond));
    }
    int worker;
    const char* what;
    Time limit, begin = System::current()->now();
  };
  const Watch watch{worker, what, limit};
  return f();
}

/// Of a call of a strategy. A loss is found within the silence limit of those that are left, and told within
/// it; a cut between two that are not the leader holds their data back as long as it lasts, and what was lost
/// in it comes later still.
inline Time call_limit(const Plan& plan) {
  constexpr Time kSlack = 5 * kSecond;
  return 3 * plan.heartbeat.count() * kMillisecond + kSlack + plan.longest_delay();
}

}  // namespace lockstep::simulation
