#pragma once

#include <map>
#include <optional>
#include <vector>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/optim/gradient.hpp>

#pragma GCC visibility push(default)

namespace lockstep::optim {

/// Adds up the gradients of several steps on each replica, without communication, so that replicas reduce
/// only once in num_steps steps:
///
///     optim::GradientAccumulator accumulator(4);
///     strategy.run([&](Tensor x) {
///       if (auto total = accumulator.add({{gradient(x), w}})) optimizer.apply_gradients(*total);
///     }, batch);
///
/// The gradients are summed, not averaged: divide the loss by the rows of all num_steps global batches. The
/// accumulator owns one tensor for each variable and replica, on the replica's device, made in the first step
/// and reused from then on; float16 and bfloat16 are added up in float32. Neither copied nor moved. Make it
/// outside `run`; it must outlive the run.
///
/// Thread safety: the replicas of one run may call `add` at different times; otherwise only one thread may
/// call.
class GradientAccumulator {
 public:
  /// @param num_steps  the number of lists that make a total. @throws InvalidArgument  num_steps is below 1.
  explicit GradientAccumulator(int num_steps);
  GradientAccumulator(const GradientAccumulator&) = delete;
  GradientAccumulator& operator=(const GradientAccumulator&) = delete;

  /// Adds one step's gradients to this replica's sums, in a replica function or outside every scope. Enqueued
  /// on the replica's current stream. Waits neither for other replicas nor for the device, except to read the
  /// indices of sparse rows, which are made dense. Gradients that are nothing add nothing, and an empty list
  /// does nothing.
  /// @return in every num_steps-th call the sums for apply_gradients, in the order of the list; a sum is
  /// nothing if all its gradients were. The sums are a snapshot, like a variable's value. Replicas that make
  /// the same number of calls agree on the step that communicates. If they do not, because a run has failed,
  /// call reset().
  /// In a function of a strategy (Strategy::function) each of the num_steps steps has a trace of its own.
  /// @throws InvalidArgument  as apply_gradients; or the variables differ from those of the first of these
  /// steps. Nothing was added then, and the call does not count.
  /// @throws ContextError  in cross-replica context.
  std::optional<std::vector<GradientAndVariable>> add(const std::vector<GradientAndVariable>& gradients);

  /// Discards the sums on all replicas. @throws ContextError  in a replica function.
  void reset();

  int num_steps() const noexcept { return num_steps_; }

 private:
  struct Sum {
    Variable variable;
    Tensor tensor;           // not defined before the first gradient
    bool is_nothing = true;  // whether all gradients since the last total were nothing
  };
  /// The state of one replica; only its thread touches it.
  struct Part {
    int num_added = 0;
    std::vector<Sum> sums;
  };

  class TracedPart;
  Part& part_of(int replica);
  /// The part in the trace that is being recorded; null: there is none.
  TracedPart* traced_part(Part& part, int replica);

  const int num_steps_;
  detail::LeafMutex mutex_;    // guards parts_, not the parts
  std::map<int, Part> parts_;  // by replica
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
