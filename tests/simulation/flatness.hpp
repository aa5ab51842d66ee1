#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "simulation/plan.hpp"
#include "simulation/system/network.hpp"
#include "simulation/system/system.hpp"

namespace lockstep::simulation {

/// Looks, in long training, whether memory, threads, descriptors and files grow between one fault and the
/// next. A killed process's memory stays, as it is this process's, so that only stretches without a fault
/// tell.
class Flatness {
 public:
  Flatness(System& system, Network& network) : system_(system), network_(network) {}

  /// To be called often. What has grown ends the simulation. @param num_done  steps.
  void look(const Plan& plan, int num_done);
  /// Counts: "stretches 12 grown_bytes 0".
  std::string describe() const;

 private:
  struct Usage {
    std::size_t num_bytes = 0, num_threads = 0, num_descriptors = 0, num_files = 0;
  };
  Usage usage() const;
  void compare(const Usage& before, const Usage& now, int step);

  System& system_;
  Network& network_;
  std::optional<Usage> first_{};  // of the first stretch
  std::optional<Usage> begin_{};  // of this one
  int num_stretches_ = 0;
  std::size_t num_grown_bytes_ = 0;  // in those stretches in which memory grew
};

}  // namespace lockstep::simulation
