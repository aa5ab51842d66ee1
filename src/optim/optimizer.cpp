#include <algorithm>
#include <iterator>
#include <limits>
#include <list>

#include <lockstep/error.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/warn.hpp"
#include "hyper_parameters.hpp"
#include "optim/clip.hpp"
#include "optim/gradients.hpp"
#include "strategy/variable_state.hpp"

namespace lockstep::optim {

using detail::concat;
using detail::GradientBatch;
using detail::LockedComponents;
using detail::VariableState;
using List = std::vector<GradientAndVariable>;

namespace {

constexpr std::string_view kApply = "apply_gradients";

/// Zeros beside a variable: on exactly its devices.
Variable make_slot(const Variable& variable, std::string name) {
  const DeviceScope here(VariableState::of(variable)->devices[0]);
  const ColocationScope place(variable.strategy(), Destination(variable).devices());
  return Variable([&] { return Tensor::zeros(variable.shape(), variable.dtype()); },
                  {.name = std::move(name), .trainable = false});
}

std::string quoted_names(const std::vector<Variable>& variables) {
  std::string names;
  for (const Variable& variable : variables)
    names += concat(names.empty() ? "'" : ", '", variable.name(), "'");
  return names;
}

/// Whether component i of every variable is on a device of replica i's, for all replicas.
bool is_one_per_replica(const std::vector<Variable>& variables) {
  return std::all_of(variables.begin(), variables.end(), [](const Variable& variable) {
    return VariableState::of(variable)->is_one_per_replica;
  });
}

void check_same_optimizer(const PerReplica<const Optimizer*>& optimizers) {
  for (int r = 1; r < optimizers.size(); ++r)
    LOCKSTEP_EXPECTS(optimizers[r] == optimizers[0], CollectiveMismatch, kApply, ": replica ", r,
                     " calls another optimizer than replica 0. Make the same calls on every replica.");
}

bool in_replica_function() { return has_strategy() && get_replica_context() != nullptr; }

}  // namespace

Optimizer::Optimizer(std::string_view name, LearningRate learning_rate, double global_clip_norm,
                     std::vector<std::string> slot_names)
    : name_(name),
      learning_rate_(std::move(learning_rate)),
      global_clip_norm_(global_clip_norm),
      slot_names_(std::move(slot_names)) {
  detail::require_at_least_0(name_, "global_clip_norm", global_clip_norm_);
}

Optimizer::~Optimizer() = default;

void Optimizer::apply_gradients(const List& gradients, const CommunicationOptions& options) {
  if (gradients.empty()) return;
  LOCKSTEP_EXPECTS(!get_update_replica_id(), ContextError, kApply, " of ", name_,
                   " in a function given to update, which is about one component. Call it outside.");
  if (in_replica_function()) {
    get_replica_context()->merge_call_as(
        kApply,
        [&](Strategy& strategy, const PerReplica<const Optimizer*>& optimizers,
            const PerReplica<const List*>& lists) {
          check_same_optimizer(optimizers);
          const std::vector<const List*> all(lists.begin(), lists.end());
          apply(strategy, GradientBatch::of_replicas(all, kApply), options);
        },
        static_cast<const Optimizer*>(this), &gradients);
    return;
  }
  Strategy& strategy = in_cross_replica_context() ? get_strategy() : gradients[0].variable.strategy();
  strategy.extended().in_cross_replica_context(
      kApply, [&] { apply(strategy, GradientBatch::given(gradients, kApply), options); });
}

void Optimizer::apply(Strategy& strategy, const GradientBatch& batch, const CommunicationOptions& options) {
  for (const Variable& variable : batch.listed())
    LOCKSTEP_EXPECTS(&variable.strategy() == &strategy, InvalidArgument, kApply, " for the variable '",
                     variable.name(), "' in ", strategy.name(), ": it was made by another strategy, ",
                     variable.strategy().name(), ". Make it in this strategy's scope.");
  check_strategy(strategy);
  LOCKSTEP_EXPECTS(!batch.variables().empty(), InvalidArgument, kApply, " of ", name_,
                   ": there is no gradient for any of the variables ", quoted_names(batch.listed()),
                   ". Check that the loss depends on them.");
  const std::int64_t made = num_steps();
  const Step step{made + 1, learning_rate_.at(made)};
  meet(batch.listed());
  if (!batch.without_gradient().empty() && !std::exchange(has_warned_, true))
    detail::warn(concat(kApply, " of ", name_, ": there is no gradient for the variables ",
                        quoted_names(batch.without_gradient()), ", which stay as they are"));

  std::vector<std::vector<Tensor>> gradients = batch.reduce(strategy, options);
  std::vector<const Entry*> entries;
  std::size_t num_components = 0;
  std::int64_t bytes = 0;
  for (const Variable& variable : batch.variables()) {
    entries.push_back(&entries_[positions_.at(VariableState::of(variable).get())]);
    num_components = std::max(num_components, VariableState::of(variable)->components.size());
    bytes += variable.shape().size() * static_cast<std::int64_t>(size_of(variable.dtype()));
  }
  const auto update_one = [&](int i) { update_component(entries, gradients, i, step); };
  if (strategy.num_replicas_in_sync() > 1 && is_one_per_replica(batch.variables())) {
    strategy.extended().for_each_replica(bytes, update_one);
  } else {
    for (std::size_t i = num_components; i-- > 0;) update_one(static_cast<int>(i));
  }
  set_num_steps(step.number);
}

void Optimizer::update_component(const std::vector<const Entry*>& entries,
                                 std::vector<std::vector<Tensor>>& gradients, int i, const Step& step) const {
  const auto at = static_cast<std::size_t>(i);
  std::vector<Tensor> mine;
  for (std::vector<Tensor>& components : gradients) {
    // A gradient of fewer components counts in every norm, by the first, which is moved last.
    if (at < components.size())
      mine.push_back(std::move(components[at]));
    else
      mine.push_back(components[0]);
  }
  if (global_clip_norm_ > 0) detail::clip_in_place(mine, global_clip_norm_);
  std::vector<Tensor> slots;
  for (std::size_t k = 0; k < entries.size(); ++k) {
    if (at >= gradients[k].size()) continue;
    slots.clear();
    std::list<LockedComponents> locked;  // slots, then their variable
    const auto writable = [&](const Variable& variable) -> Tensor& {
      return locked.emplace_back(*VariableState::of(variable), at).writable(at);
    };
    for (const Variable& slot : entries[k]->slots) slots.push_back(writable(slot));
    Tensor local = writable(entries[k]->variable);
    const DeviceScope here(local.device());
    update(local, mine[k], slots, step);
  }
}

void Optimizer::build(const std::vector<Variable>& variables) {
  if (variables.empty()) return;
  Strategy& strategy = in_cross_replica_context() ? get_strategy() : variables[0].strategy();
  strategy.extended().in_cross_replica_context("build", [&] {
    for (const Variable& variable : variables) {
      LOCKSTEP_EXPECTS(&variable.strategy() == &strategy, InvalidArgument, "build of ", name_,
                       " for the variable '", variable.name(), "' in ", strategy.name(),
                       ": it was made by another strategy, ", variable.strategy().name(),
                       ". Make it in this strategy's scope.");
    }
    detail::check_variables(variables, "build");
    check_strategy(strategy);
    meet(variables);
  });
}

void Optimizer::check_strategy(const Strategy& strategy) const {
  LOCKSTEP_EXPECTS(!iterations_ || &iterations_->strategy() == &strategy, InvalidArgument, name_,
                   ": it has updated variables of ", iterations_->strategy().name(), " before, these are of ",
                   strategy.name(), ". Use one optimizer for each strategy.");
}

void Optimizer::meet(const std::vector<Variable>& variables) {
  if (!iterations_) {
    const DeviceScope here(VariableState::of(variables[0])->devices[0]);
    iterations_.emplace(Tensor::scalar(std::int64_t{0}),
                        VariableOptions{.name = "iterations",
                                        .trainable = false,
                                        .aggregation = VariableAggregation::only_first_replica});
    counted_ = VariableState::of(*iterations_)->read(0);
  }
  for (const Variable& variable : variables) {
    const VariableState* const identity = VariableState::of(variable).get();
    if (positions_.contains(identity)) continue;
    std::string name = variable.name();
    for (int n = 1; names_.contains(name); ++n) name = concat(variable.name(), "_", n);
    Entry entry{variable, name, {}};
    for (const std::string& slot : slot_names_)
      entry.slots.push_back(make_slot(variable, concat(name, "/", slot)));
    entries_.push_back(std::move(entry));
    positions_.emplace(identity, entries_.size() - 1);
    names_.insert(std::move(name));
  }
}

std::int64_t Optimizer::num_steps() const {
  if (!iterations_) return 0;
  const Tensor counter = VariableState::of(*iterations_)->read(0);
  if (counter.is_same_object(counted_)) return num_steps_;
  const auto written = counter.item<std::int64_t>();
  LOCKSTEP_EXPECTS(written >= 0 && written < std::numeric_limits<std::int64_t>::max(), InvalidArgument, name_,
                   ": its iterations were set to ", written, ". Set a number of steps that were made.");
  return written;
}

void Optimizer::set_num_steps(std::int64_t num_steps) {
  counted_ = Tensor();
  VariableState& counter = *VariableState::of(*iterations_);
  LockedComponents locked(counter);
  for (std::size_t i = 0; i < counter.components.size(); ++i) locked.writable(i).fill_(num_steps);
  counted_ = locked[0];
  num_steps_ = num_steps;
}

Variable Optimizer::iterations() const {
  LOCKSTEP_EXPECTS(iterations_.has_value(), ContextError, "iterations of ", name_,
                   ": it has met no variable yet, and so has no strategy. Call build(variables) first.");
  return *iterations_;
}

double Optimizer::learning_rate() const { return learning_rate_.at(num_steps()); }

void Optimizer::set_learning_rate(LearningRate learning_rate) {
  LOCKSTEP_EXPECTS(!in_replica_function(), ContextError, "set_learning_rate of ", name_, " on replica ",
                   get_replica_context()->replica_id_in_sync_group(),
                   ", while others may use it. Call it outside run, or in a function given to merge_call.");
  learning_rate_ = std::move(learning_rate);
}

std::vector<std::pair<std::string, Variable>> Optimizer::variables() const {
  std::vector<std::pair<std::string, Variable>> all;
  if (iterations_) all.emplace_back("iterations", *iterations_);
  for (const Entry& entry : entries_)
    for (std::size_t k = 0; k < slot_names_.size(); ++k)
      all.emplace_back(concat(entry.name, "/", slot_names_[k]), entry.slots[k]);
  return all;
}

}  // namespace lockstep::optim
