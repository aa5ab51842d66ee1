#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulation/plan.hpp"
#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// What a worker's process has said.
struct WorkerReport {
  bool has_finished = false;
  std::string error_kind{};                 ///< "timeout": of the error with which it has ended.
  std::string error{};                      ///< With which it has ended; empty: none.
  std::vector<std::int64_t> first_steps{};  ///< With which each of its strategies has begun.
  std::vector<std::string> losses{};        ///< Why it has lost a strategy: the causes, of each in turn.
};

/// What all workers of a simulation see together. One thread runs at a time.
struct Observed {
  std::vector<std::vector<float>> expected{};   ///< undisturbed_weights.
  int num_done = 0;                             ///< The highest step that a worker has done.
  std::map<std::string, std::uint64_t> bits{};  ///< Of results, by what they are of: the same on all workers.
  std::uint64_t num_steps = 0, num_saves = 0, num_resumes = 0, num_shrinks = 0, num_told = 0, num_hangs = 0,
                num_full_disks = 0, num_exceptions = 0;
  const Fault* hang = nullptr;  ///< The last one.
};

/// The weights after each number of steps, computed without a strategy.
std::vector<std::vector<float>> undisturbed_weights(const Plan& plan);

/// A worker's program: it trains from the newest checkpoint to the last step, with those that are left if the
/// plan says so. What is not as it should be ends the simulation.
/// @param restart  how often all have started anew.
void train(const Plan& plan, int worker, int restart, Observed& observed, WorkerReport& report);

}  // namespace lockstep::simulation
