#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "simulation/plan.hpp"
#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// That a worker has lost a strategy.
struct HeardLoss {
  std::string cause;
  Time time;
};

/// What a worker's process has said.
struct WorkerReport {
  bool has_finished = false;
  std::string error_kind{};                 ///< "timeout": of the error with which it has ended.
  std::string error{};                      ///< With which it has ended; empty: none.
  std::vector<std::int64_t> first_steps{};  ///< With which each of its strategies has begun.
  std::vector<HeardLoss> losses{};          ///< Of each strategy in turn.
  std::int64_t num_starts_before = 0;       ///< How many first_steps those had whom it has joined.
  std::int64_t num_losses_before = 0;       ///< The same of their losses.
  std::vector<std::string> cluster{};       ///< Its strategy's workers, in order; empty: it has had none.
  Time trains_since = 0;                    ///< When it got its first strategy.
  Time cluster_since = 0;                   ///< When it got the last one.
};

/// What all workers of a simulation see together. One thread runs at a time.
struct Observed {
  std::vector<std::vector<float>> expected{};   ///< undisturbed_weights.
  int num_done = 0;                             ///< The highest step that a worker has done.
  std::map<std::string, std::uint64_t> bits{};  ///< Of results, by what they are of: the same on all workers.
  std::uint64_t num_steps = 0, num_saves = 0, num_resumes = 0, num_shrinks = 0, num_told = 0, num_hangs = 0,
                num_full_disks = 0, num_exceptions = 0, num_joins = 0, num_calls_of_grow = 0, num_grows = 0,
                num_grows_in_vain = 0;
  const Fault* hang = nullptr;  ///< The last one.
};

/// The weights after each number of steps, computed without a strategy.
std::vector<std::vector<float>> undisturbed_weights(const Plan& plan);

/// A worker's program: it trains from the newest checkpoint to the last step, with those that are left if the
/// plan says so. What is not as it should be ends the simulation.
/// @param restart  how often all have started anew. @param leader  at whose address it joins those that
/// train; empty: it starts with the others.
void train(const Plan& plan, int worker, int restart, const std::string& leader, Observed& observed,
           WorkerReport& report);

}  // namespace lockstep::simulation
