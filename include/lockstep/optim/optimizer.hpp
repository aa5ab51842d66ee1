#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/collectives/options.hpp>
#include <lockstep/optim/gradient.hpp>
#include <lockstep/optim/learning_rate.hpp>
#include <lockstep/values/variable.hpp>

#pragma GCC visibility push(default)

namespace lockstep {
class Strategy;
namespace backend {
struct UpdateParameters;
}
namespace detail {
class GradientBatch;
class TraceRecorder;
}  // namespace detail
}  // namespace lockstep

namespace lockstep::optim {

/// Updates variables by their gradients. SGD, Momentum, Adam and AdamW derive from this class; others may
/// too.
///
/// Owns slot variables: state beside each variable, on exactly its devices, of its shape and dtype, initially
/// zeros. In float16 and bfloat16 slots therefore round as the variable does (a large second moment of Adam
/// hardly changes there, because each change is 0.1 % of it); keep variables that need more precision in
/// float32. An optimizer belongs to the strategy of the first variable it meets and keeps handles of the
/// variables, so it must not be used after that strategy's end. Neither copied nor moved.
///
/// Thread safety: the replicas of one run call apply_gradients together; otherwise only one thread may call.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Makes one step: one fused kernel updates each component of each variable.
  ///
  /// In a replica function the gradients are summed over the replicas as one batch, never averaged (divide
  /// the loss by the global batch size); every replica must make the call with the same variables. In
  /// cross-replica context and outside every scope gradients are used as they are: mirrored ones by
  /// component, plain ones for every component. Sparse rows are summed as sparse rows and made dense for the
  /// update: rows of one index add up, and missing rows count as zeros (their moments fade and their weights
  /// decay). A variable whose gradient is nothing on every replica is left out, with a warning the first
  /// time. An empty list does nothing and is not a step.
  ///
  /// Everything is enqueued on the current streams of the variables' devices, and the call waits for no
  /// device, except to read the indices of sparse rows, and `iterations` after other code has written it. The
  /// step's number and rate are part of the enqueued work, so that a step cannot be captured, but by
  /// Strategy::function: there they are in device memory, with the same bits, and each launch has its own. In
  /// steady state only reductions, clipping, and components of which a snapshot exists take memory, all of it
  /// from the devices' pools; with dense gradients nothing is allocated on the heap, except the list of
  /// gradients that the caller makes. All components get the same bits.
  ///
  /// @param options  of the reduction; those of replica 0 apply. The strategy's timeout limits how long
  /// replicas wait for each other.
  /// @throws InvalidArgument  a gradient's shape or dtype is not its variable's; a variable's dtype is not a
  /// floating-point one, or the variable is listed twice or belongs to another strategy; all gradients are
  /// nothing; a gradient is a per-replica value (outside replica functions reduce_to it first, inside pass it
  /// to run) or a mirrored one with another number of components; the learning rate is not a number of at
  /// least 0; an index of sparse rows is out of range.
  /// @throws CollectiveMismatch  replicas differ in optimizer or variables, or in whether a gradient is
  /// dense, sparse or nothing: names the replicas.
  /// @throws ContextError  in a function given to `update`.
  /// @throws Unsupported  a variable's stream is being captured: every launch would repeat the step; or a
  /// function of a strategy is traced, and the optimizer has no update_parameters.
  /// @throws OutOfMemory  the step's memory cannot be allocated.
  ///
  /// After these errors neither variables nor the optimizer have changed: all memory is taken before the
  /// first update, and other threads see all variables from before the step or from after it. (Where an
  /// update fails halfway, the strategy's collectives throw CollectiveAborted from then on.)
  void apply_gradients(const std::vector<GradientAndVariable>& gradients,
                       const CommunicationOptions& options = {});

  /// Makes a step with gradients that are already reduced, by ctx.all_reduce or clipped by hand. In a replica
  /// function each replica's gradients update its own components, and nothing is reduced. The caller
  /// guarantees that they are equal on all replicas; otherwise the variables' components diverge. Replica 0's
  /// gradient updates a variable that has one component.
  /// @throws as apply_gradients.
  void apply_reduced_gradients(const std::vector<GradientAndVariable>& gradients);

  /// Makes the step counter and the slots of variables that have none yet, as apply_gradients does for new
  /// variables. Call it to restore a checkpoint into a fresh optimizer.
  /// @throws ContextError  in a replica function. @throws InvalidArgument  a variable's dtype is not a
  /// floating-point one, or the variable is listed twice or belongs to another strategy.
  void build(const std::vector<Variable>& variables);

  /// The number of steps made: i64, one component on each device, aggregation only_first_replica. Writing it,
  /// as restoring a checkpoint does, sets the number that Adam's correction and the schedule use. The next
  /// step then waits once to read it; so does each step after a capture that has read or written it. A step
  /// refuses a number below 0 (InvalidArgument).
  /// @throws ContextError  the optimizer has met no variable yet.
  Variable iterations() const;

  /// The rate of the next step. Waits as the next step would.
  double learning_rate() const;
  /// Takes effect in the next step. The schedule continues from `iterations`. @throws ContextError  in a
  /// replica function.
  void set_learning_rate(LearningRate learning_rate);

  /// The variables that a checkpoint of the optimizer holds: "iterations", then the slots as "VARIABLE/SLOT"
  /// ("w/velocity"), in the order in which the optimizer met the variables. The second variable named w is
  /// called "w_1", the third "w_2". Empty before the first variable.
  std::vector<std::pair<std::string, Variable>> variables() const;

 protected:
  /// The properties of a step that an update uses.
  struct Step {
    std::int64_t number;   ///< Counted from 1.
    double learning_rate;  ///< At least 0.
  };

  /// @param name  the optimizer's name for messages; a literal. @param slot_names  the slots of each
  /// variable.
  /// @param global_clip_norm  limit of clip_by_global_norm for the summed gradients; 0: no clipping.
  /// @throws InvalidArgument  global_clip_norm is not a number of at least 0.
  Optimizer(std::string_view name, LearningRate learning_rate, double global_clip_norm,
            std::vector<std::string> slot_names);

  /// Enqueues one component's update, in place, on its device's current stream. It is called for each
  /// component, with the component's device current, possibly for several devices at the same time. During
  /// the call no other thread reads or writes the variables of the step, so the update must access them only
  /// through its arguments. It should neither throw nor take memory: the constructor should refuse invalid
  /// options.
  /// @param slots  in the order of slot_names.
  virtual void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                      const Step& step) const = 0;
  /// For optimizers whose `update` is one call of sgd_update_ or adam_update_: what it passes to it for
  /// `step`. One kernel then makes the updates of about a hundred variables, when `update` was called for
  /// all. In a graph of Strategy::function it reads from device memory what depends on the step.
  /// @return false, the default: `update` does other work, with the numbers of the host, and cannot be
  /// traced.
  virtual bool update_parameters(const Step& step, backend::UpdateParameters& parameters) const;

 private:
  struct Entry;
  struct Tracked;
  class TracedSteps;

  void apply_as(std::string_view what, const std::vector<GradientAndVariable>& gradients, bool are_reduced,
                const CommunicationOptions& options);
  void apply(std::string_view what, Strategy& strategy, const detail::GradientBatch& batch,
             const CommunicationOptions& options);
  /// @throws Unsupported  there are no update_parameters.
  void check_can_be_traced(std::string_view what) const;
  /// Reserves the place of a step's numbers in a trace.
  std::size_t trace_step(detail::TraceRecorder& recorder);
  void check_no_capture(std::string_view what, std::span<const Variable> variables) const;
  void check_strategy(const Strategy& strategy) const;
  /// The tracked variables and these; null: these are tracked already.
  std::unique_ptr<Tracked> tracked_with(std::span<const Variable> variables) const;
  /// The number of steps made.
  std::int64_t num_steps() const;

  const std::string_view name_;
  LearningRate learning_rate_;
  const double global_clip_norm_;
  const std::vector<std::string> slot_names_;
  std::unique_ptr<Tracked> tracked_;  // of the variables that the optimizer has met
  // The number of steps is kept here too, so that no device must be asked. It holds until component 0 of the
  // iterations is written again. Empty: it does not hold.
  std::optional<std::uint64_t> counted_;
  std::int64_t num_steps_ = 0;
  bool has_warned_ = false;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
