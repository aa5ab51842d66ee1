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
/// Sums, does not average: divide the loss by the rows of all num_steps global batches. Owns one accumulator
/// for each variable and replica, on the replica's device, made in the first step and written anew from then
/// on; float16 and bfloat16 are added up in float32. Neither copied nor moved. Must be made outside of run,
/// and outlive it.
///
/// Thread safety: the replicas of one run may call `add`, each at its own time; else one thread at a time.
class GradientAccumulator {
 public:
  /// @param num_steps  how many lists make a total. @throws InvalidArgument  below 1.
  explicit GradientAccumulator(int num_steps);
  GradientAccumulator(const GradientAccumulator&) = delete;
  GradientAccumulator& operator=(const GradientAccumulator&) = delete;

  /// Adds one step's gradients to this replica's, in a replica function or outside every scope. Enqueued on
  /// the replica's current stream; waits neither for other replicas nor for the device, except to read the
  /// indices of sparse rows, which are made dense. Gradients that are nothing add nothing. An empty list does
  /// nothing.
  /// @return in every num_steps-th call the sums, for apply_gradients, in the order of the list (nothing
  /// where there was nothing in all steps); a snapshot, like a variable's value. Replicas that make the same
  /// number of calls so agree on when they communicate; if they do not, because a run has failed, call
  /// reset().
  /// @throws InvalidArgument  as apply_gradients; other variables than in the first of these steps. Nothing
  /// was added then, and the call does not count.
  /// @throws ContextError  in cross-replica context.
  std::optional<std::vector<GradientAndVariable>> add(const std::vector<GradientAndVariable>& gradients);

  /// Forgets what was added, on all replicas. @throws ContextError  in a replica function.
  void reset();

  int num_steps() const noexcept { return num_steps_; }

 private:
  struct Sum {
    Variable variable;
    Tensor tensor;           // not defined before the first gradient
    bool is_nothing = true;  // in these steps so far
  };
  /// One replica's. Only its thread touches it.
  struct Part {
    int num_added = 0;
    std::vector<Sum> sums;
  };

  Part& part_of(int replica);

  const int num_steps_;
  detail::LeafMutex mutex_;    // guards parts_, not the parts
  std::map<int, Part> parts_;  // by replica
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
