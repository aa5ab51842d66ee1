#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "simulation/system/network.hpp"
#include "simulation/system/system.hpp"
#include "support/temporary_directory.hpp"

namespace lockstep::simulation {

/// How a simulation has ended.
struct Outcome {
  std::uint64_t seed = 0;
  std::string failure{};   ///< Empty: it has passed.
  std::string result{};    ///< What it has returned.
  std::uint64_t hash = 0;  ///< Of all that has happened.
  Time time = 0;
  std::uint64_t num_switches = 0;
};

/// What is simulated: called as process 0's first thread.
using Simulated = std::function<std::string(System&, Network&)>;

/// Makes what all simulations share, once: this process starts anew, with memory where it always is. @param
/// argv  main's.
void prepare(char** argv);

/// A simulation under way, in a fork of this process, whose current folder is an empty one of its own.
class Fork {
 public:
  /// @param core  that it may use; -1: any. @param limit_seconds  of real time.
  Fork(std::uint64_t seed, const Simulated& simulated, bool is_verbose = false, int core = -1,
       unsigned limit_seconds = 120);
  /// Waits for its end.
  Outcome wait();

 private:
  std::uint64_t seed_;
  unsigned limit_seconds_;
  std::unique_ptr<test::TemporaryDirectory> folder_;
  int pid_ = 0, pipe_ = -1;
};

/// One simulation.
inline Outcome simulate(std::uint64_t seed, const Simulated& simulated, bool is_verbose = false,
                        unsigned limit_seconds = 120) {
  return Fork(seed, simulated, is_verbose, -1, limit_seconds).wait();
}

}  // namespace lockstep::simulation
