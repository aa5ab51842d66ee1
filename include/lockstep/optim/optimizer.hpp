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
namespace detail {
class GradientBatch;
}
}  // namespace lockstep

namespace lockstep::optim {

/// Moves variables down their gradients: SGD, Momentum, Adam and AdamW derive from it, and so may others.
///
/// Owns slot variables: state beside each variable, on exactly its devices, of its shape and dtype, zeros at
/// first. In float16 and bfloat16 they therefore round as the variable does (Adam's second moment hardly
/// moves there once it is large: its changes are 0.1 % of it); keep variables that need more in float32. An
/// optimizer belongs to the strategy of the first variable it meets, keeps handles of the variables, and so
/// must not outlive that strategy's use. Neither copied nor moved.
///
/// Thread safety: the replicas of one run call apply_gradients together; else one thread at a time.
class Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One step: each variable takes one update of each of its components, by one fused kernel.
  ///
  /// In a replica function the gradients are summed over the replicas, never averaged (divide the loss by the
  /// global batch size), as one batch; every replica must make the call, with the same variables. In
  /// cross-replica context, and outside every scope, gradients are taken as they are: mirrored ones by
  /// component, plain ones for every component. Sparse rows are summed as such, and made dense for the update
  /// (rows of one index add up; rows that are not named take part with zeros: moments fade, weights decay).
  /// Variables whose gradient is nothing, on every replica, are left out, with a warning the first time. An
  /// empty list does nothing and is no step.
  ///
  /// Everything is enqueued on the current streams of the variables' devices, and no device is waited for,
  /// except to read the indices of sparse rows, and `iterations` when somebody else has written it. The
  /// step's number and rate are part of what is enqueued, so that a step cannot be captured. In steady state
  /// only reductions, clipping, and components of which somebody holds a snapshot take memory, all of it from
  /// the devices' pools: with dense gradients nothing comes from the heap, but for a list of gradients that
  /// the caller makes for the call. All components get the same bits.
  ///
  /// @param options  of the reduction; replica 0's count. How long replicas wait for each other is the
  /// strategy's timeout.
  /// @throws InvalidArgument  a gradient of another shape or dtype than its variable's; a variable that is
  /// not of a floating-point dtype, is listed twice or belongs to another strategy; nothing for all
  /// variables; a per-replica value (outside replica functions reduce_to it first, inside pass it to run); a
  /// mirrored one of another number of components; a learning rate that is not a number of at least 0; an
  /// index of sparse rows out of range.
  /// @throws CollectiveMismatch  replicas differ in optimizer, variables, or whether and how (dense or
  /// sparse) there is a gradient: names the replicas.
  /// @throws ContextError  in a function given to `update`.
  /// @throws Unsupported  a variable's stream is being captured: every launch would repeat the step.
  /// @throws OutOfMemory
  /// Neither variables nor the optimizer have changed then: what takes memory comes before the first update,
  /// and other threads see all variables from before the step or from after it. (A device that fails in the
  /// midst of updates is past that.)
  void apply_gradients(const std::vector<GradientAndVariable>& gradients,
                       const CommunicationOptions& options = {});

  /// The same with gradients that are reduced already, as by ctx.all_reduce or clipped by hand: in a replica
  /// function each replica's gradients update its own components, and nothing is reduced. The caller vouches
  /// that they are equal on all replicas: if not, the variables' components part. Where a variable has one
  /// component, replica 0's gradient updates it. @throws as apply_gradients.
  void apply_reduced_gradients(const std::vector<GradientAndVariable>& gradients);

  /// Makes the slots, and the step counter, of variables that have none yet, as apply_gradients does when it
  /// first meets them: to restore a checkpoint into a fresh optimizer.
  /// @throws ContextError  in a replica function. @throws InvalidArgument  a variable that is not of a
  /// floating-point dtype, is listed twice, or belongs to another strategy.
  void build(const std::vector<Variable>& variables);

  /// The number of steps made: i64, one component on each device, aggregation only_first_replica. Writing it,
  /// as restoring a checkpoint does, sets the number that Adam's correction and the schedule go by; the next
  /// step then waits once to read it, and each does that follows a capture that has read or written it. A
  /// number below 0 is refused there: InvalidArgument.
  /// @throws ContextError  the optimizer has met no variable yet.
  Variable iterations() const;

  /// The rate of the next step. Waits as the next step would.
  double learning_rate() const;
  /// From the next step on. The schedule goes on from `iterations`. @throws ContextError  in a replica
  /// function.
  void set_learning_rate(LearningRate learning_rate);

  /// What a checkpoint of the optimizer holds: "iterations", then the slots, as "VARIABLE/SLOT"
  /// ("w/velocity"), in the order in which the variables were met. The second variable named w is called
  /// "w_1" there, the third "w_2". Empty before the first variable.
  std::vector<std::pair<std::string, Variable>> variables() const;

 protected:
  /// What an update knows of its step.
  struct Step {
    std::int64_t number;   ///< Counted from 1.
    double learning_rate;  ///< At least 0.
  };

  /// @param name  of the optimizer, for messages; a literal. @param slot_names  of each variable's slots.
  /// @param global_clip_norm  clip_by_global_norm for the summed gradients; 0: none.
  /// @throws InvalidArgument  global_clip_norm is not a number of at least 0.
  Optimizer(std::string_view name, LearningRate learning_rate, double global_clip_norm,
            std::vector<std::string> slot_names);

  /// Enqueues one component's update, in place, on its device's current stream. Called for each component,
  /// also of several devices at the same time, with the component's device current, while no other thread
  /// reads or writes the variables of the step; so it must not either, but by these arguments. Should not
  /// throw or take memory: what it refuses the constructor should have refused.
  /// @param slots  in the order of slot_names.
  virtual void update(Tensor& variable, const Tensor& gradient, std::span<const Tensor> slots,
                      const Step& step) const = 0;

 private:
  struct Entry;
  struct Known;

  void apply_as(std::string_view what, const std::vector<GradientAndVariable>& gradients, bool are_reduced,
                const CommunicationOptions& options);
  void apply(std::string_view what, Strategy& strategy, const detail::GradientBatch& batch,
             const CommunicationOptions& options);
  void check_no_capture(std::string_view what, std::span<const Variable> variables) const;
  void check_strategy(const Strategy& strategy) const;
  /// What is known when these have been met, too; null: they have been.
  std::unique_ptr<Known> met(std::span<const Variable> variables) const;
  /// The number of steps made.
  std::int64_t num_steps() const;

  const std::string_view name_;
  LearningRate learning_rate_;
  const double global_clip_norm_;
  const std::vector<std::string> slot_names_;
  std::unique_ptr<Known> known_;  // of the variables that the optimizer has met
  // The number of steps is kept here too, so that no device must be asked. It holds until component 0 of the
  // iterations is written again. Empty: it does not hold.
  std::optional<std::uint64_t> counted_;
  std::int64_t num_steps_ = 0;
  bool has_warned_ = false;
};

}  // namespace lockstep::optim

#pragma GCC visibility pop
