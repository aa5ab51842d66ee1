#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "model/model.hpp"

namespace lockstep::model {

/// Explores executions of a suite of Relacy's. With LOCKSTEP_PROOF_VERBOSE in the environment it prints the
/// one that went wrong.
template <class Suite>
bool holds(std::uint64_t num_executions) {
  std::ostream quiet(nullptr);  // writes nothing
  rl::test_params params;
  params.iteration_count = static_cast<rl::iteration_t>(num_executions);
  params.output_stream = std::getenv("LOCKSTEP_PROOF_VERBOSE") != nullptr ? &std::cout : &quiet;
  params.progress_stream = &quiet;
  params.execution_depth_limit = 4000;
  num_threads = Suite::params::thread_count;
  return rl::simulate<Suite>(params);
}

}  // namespace lockstep::model
