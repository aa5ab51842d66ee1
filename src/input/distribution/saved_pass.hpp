#pragma once

#include <string>

#include <lockstep/input/distributed_dataset.hpp>

/// The states of passes of several workers.
namespace lockstep::detail {

struct StepPlan;

/// The state of a pass, with each worker's.
IteratorState save_of_workers(StepIterator& pass, const StepPlan& plan);

struct SavedPass {
  PassNumbers numbers;
  std::string content;  ///< What StepIterator::transfer reads on this worker.
};

/// What this worker reads of a state. @throws FileFault  the state is damaged. @throws InvalidArgument  it is
/// of another number of workers, and this plan's datasets cannot be shared out anew.
SavedPass saved_pass(const IteratorState& state, const StepPlan& plan);

}  // namespace lockstep::detail
