#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <ranges>
#include <set>
#include <span>
#include <unordered_map>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/error.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "detail/warn.hpp"
#include "hyper_parameters.hpp"
#include "optim/clip.hpp"
#include "optim/gradients.hpp"
#include "strategy/strategy_access.hpp"
#include "strategy/variable/variable_access.hpp"
#include "trace/span.hpp"
#include "update_batch.hpp"

namespace lockstep::optim {

using detail::all_components;
using detail::ComponentRef;
using detail::concat;
using detail::GradientBatch;
using detail::LockedComponents;
using detail::RecycledVector;
using detail::VariableAccess;
using List = std::vector<GradientAndVariable>;

namespace {

/// A variable of zeros on the same devices.
Variable make_slot(const Variable& variable, std::string name) {
  const DeviceScope here(VariableAccess::devices(variable)[0]);
  const ColocationScope place(variable.strategy(), VariableAccess::devices(variable));
  return Variable([&] { return Tensor::zeros(variable.shape(), variable.dtype()); },
                  {.name = std::move(name), .trainable = false});
}

std::string quoted_names(std::span<const Variable> variables) {
  std::string names;
  for (const Variable& variable : variables)
    names += concat(names.empty() ? "'" : ", '", variable.name(), "'");
  return names;
}

/// Whether component i of every variable is on a device of replica i's, for all replicas.
bool is_one_per_replica(std::span<const Variable> variables) {
  return std::all_of(variables.begin(), variables.end(),
                     [](const Variable& variable) { return detail::is_one_per_replica(variable); });
}

void check_same_optimizer(std::string_view what, int first_replica,
                          const PerReplica<const Optimizer*>& optimizers) {
  for (int i = 1; i < optimizers.size(); ++i)
    LOCKSTEP_EXPECTS(optimizers[i] == optimizers[0], CollectiveMismatch, what, ": replica ",
                     first_replica + i, " calls another optimizer than replica ", first_replica,
                     ". Make the same calls on every replica.");
}

/// The update of one component.
struct ComponentUpdate {
  std::size_t gradient;  // in the component's list
  std::size_t begin;     // its first tensor's position in Plan::components: slots, then the variable
  std::size_t num_tensors;
  RecycledVector<Tensor> tensors;  // set once they can be written; reserved before
};

/// The components that a step writes.
struct Plan {
  RecycledVector<RecycledVector<ComponentUpdate>> updates;  // [i]: of components i
  RecycledVector<ComponentRef> components;
  std::size_t num_of_variables;  // components of variables and slots; the step counter's follow
};

template <class Entries>
Plan make_plan(const Entries& entries, std::size_t num_components) {
  Plan plan{RecycledVector<RecycledVector<ComponentUpdate>>(num_components), {}, 0};
  for (std::size_t k = 0; k < entries.size(); ++k) {
    const std::size_t num_tensors = entries[k]->slots.size() + 1;
    for (const ComponentRef& component : all_components(*VariableAccess::state(entries[k]->variable))) {
      ComponentUpdate& update =
          plan.updates[component.i].emplace_back(ComponentUpdate{k, plan.components.size(), num_tensors, {}});
      update.tensors.reserve(num_tensors);
      for (const Variable& slot : entries[k]->slots)
        plan.components.push_back({VariableAccess::state(slot).get(), component.i});
      plan.components.push_back(component);
    }
  }
  plan.num_of_variables = plan.components.size();
  return plan;
}

/// Turns gradients, [k][i], into one list per component, [i][k], contiguous. A gradient of one component is
/// in every list, since it counts in every norm.
RecycledVector<RecycledVector<Tensor>> by_component(RecycledVector<RecycledVector<Tensor>> gradients) {
  std::size_t num_components = 0;
  for (const auto& components : gradients) num_components = std::max(num_components, components.size());
  RecycledVector<RecycledVector<Tensor>> lists(num_components);
  for (std::size_t i = num_components; i-- > 0;) {
    lists[i].reserve(gradients.size());
    for (RecycledVector<Tensor>& components : gradients) {
      Tensor& gradient = components[i < components.size() ? i : 0];
      if (!gradient.is_contiguous()) gradient = gradient.clone();
      if (i < components.size())
        lists[i].push_back(std::move(gradient));
      else
        lists[i].push_back(gradient);
    }
  }
  return lists;
}

bool in_replica_function() { return has_strategy() && get_replica_context() != nullptr; }

}  // namespace

struct Optimizer::Entry {
  Variable variable;
  std::string name;  // unique in `names`
  std::vector<Variable> slots;
};

struct Optimizer::Tracked {
  std::vector<Entry> entries;
  std::unordered_map<const void*, std::size_t> positions;  // in entries, by the variable's identity
  std::set<std::string> names;                             // of entries
  std::optional<Variable> iterations;
};

Optimizer::Optimizer(std::string_view name, LearningRate learning_rate, double global_clip_norm,
                     std::vector<std::string> slot_names)
    : name_(name),
      learning_rate_(std::move(learning_rate)),
      global_clip_norm_(global_clip_norm),
      slot_names_(std::move(slot_names)),
      tracked_(std::make_unique<Tracked>()) {
  detail::require_at_least_0(name_, "global_clip_norm", global_clip_norm_);
}

Optimizer::~Optimizer() = default;

void Optimizer::apply_gradients(const List& gradients, const CommunicationOptions& options) {
  apply_as("apply_gradients", gradients, /*are_reduced=*/false, options);
}

void Optimizer::apply_reduced_gradients(const List& gradients) {
  apply_as("apply_reduced_gradients", gradients, /*are_reduced=*/true, {});
}

void Optimizer::apply_as(std::string_view what, const List& gradients, bool are_reduced,
                         const CommunicationOptions& options) {
  if (gradients.empty()) return;
  LOCKSTEP_EXPECTS(!get_update_replica_id(), ContextError, what, " of ", name_,
                   " in a function given to update, which is about one component. Call it outside.");
  if (in_replica_function()) {
    get_replica_context()->merge_call_as(
        what,
        [&](Strategy& strategy, const PerReplica<const Optimizer*>& optimizers,
            const PerReplica<const List*>& lists) {
          const int first = detail::first_replica(strategy);
          check_same_optimizer(what, first, optimizers);
          const RecycledVector<const List*> all(lists.begin(), lists.end());
          apply(what, strategy, GradientBatch::of_replicas(all, first, are_reduced, what), options);
        },
        static_cast<const Optimizer*>(this), &gradients);
    return;
  }
  Strategy& strategy = in_cross_replica_context() ? get_strategy() : gradients[0].variable.strategy();
  detail::call_serialised(strategy, what,
                          [&] { apply(what, strategy, GradientBatch::of_caller(gradients, what), options); });
}

void Optimizer::check_no_capture(std::string_view what, std::span<const Variable> variables) const {
  for (const Variable& variable : variables) {
    for (const Device& device : VariableAccess::devices(variable)) {
      const StreamRef stream = current_stream(device);
      LOCKSTEP_EXPECTS(!stream.device_backend().is_capturing(stream.handle()), Unsupported, what, " of ",
                       name_, " for the variable '", variable.name(), "': the stream of ", device,
                       " is being captured, and every launch would repeat this step, its number and its "
                       "learning rate. Capture what comes before, and apply gradients after the launch.");
    }
  }
}

void Optimizer::apply(std::string_view what, Strategy& strategy, const GradientBatch& batch,
                      const CommunicationOptions& options) {
  const detail::Span span(detail::SpanKind::update, what);
  detail::TraceRecorder* const recorder = detail::TraceScope::capturing();
  if (detail::TraceScope::has_rules()) check_can_be_traced(what);
  if (recorder == nullptr) check_no_capture(what, batch.variables());
  for (const Variable& variable : batch.listed())
    LOCKSTEP_EXPECTS(&variable.strategy() == &strategy, InvalidArgument, what, " for the variable '",
                     variable.name(), "' in ", strategy.name(), ": it was made by another strategy, ",
                     variable.strategy().name(), ". Make it in this strategy's scope.");
  check_strategy(strategy);
  LOCKSTEP_EXPECTS(!batch.variables().empty(), InvalidArgument, what, " of ", name_,
                   ": there is no gradient for any of the variables ", quoted_names(batch.listed()),
                   ". Check that the loss depends on them.");
  // In a trace each launch has its own numbers.
  const std::int64_t made = recorder == nullptr ? num_steps() : 0;
  const Step step{made + 1, recorder == nullptr ? learning_rate_.at(made) : 0};
  std::unique_ptr<Tracked> extended = tracked_with(batch.listed());
  const Tracked& tracked = extended ? *extended : *tracked_;
  if (!batch.without_gradient().empty() && !std::exchange(has_warned_, true))
    detail::warn(concat(what, " of ", name_, ": there is no gradient for the variables ",
                        quoted_names(batch.without_gradient()), ", which stay as they are"));

  RecycledVector<const Entry*> entries;
  entries.reserve(batch.variables().size());
  std::int64_t bytes = 0;
  for (const Variable& variable : batch.variables()) {
    entries.push_back(&tracked.entries[tracked.positions.at(VariableAccess::state(variable).get())]);
    bytes += variable.shape().size() * static_cast<std::int64_t>(size_of(variable.dtype()));
  }
  // Memory is taken first, so that a failure changes nothing.
  RecycledVector<RecycledVector<Tensor>> gradients = by_component(batch.reduce(strategy, options));
  Plan plan = make_plan(entries, gradients.size());
  for (const ComponentRef& component : all_components(*VariableAccess::state(*tracked.iterations)))
    plan.components.push_back(component);
  const bool in_parallel = strategy.num_replicas_in_sync() > 1 && is_one_per_replica(batch.variables());
  const auto for_each_component = [&](const auto& act) {
    const auto act_on = [&](int i) { act(static_cast<std::size_t>(i)); };
    if (in_parallel) return detail::for_each_replica(strategy, bytes, act_on);
    for (std::size_t i = 0; i < gradients.size(); ++i) act(i);
  };
  if (global_clip_norm_ > 0)
    for_each_component([&](std::size_t i) { detail::clip_in_place(gradients[i], global_clip_norm_); });

  const std::size_t place = recorder == nullptr ? 0 : trace_step(*recorder);

  RecycledVector<detail::UpdateBatch::Memory> batches(gradients.size());
  for (std::size_t i = 0; i < batches.size(); ++i) batches[i].reserve(plan.updates[i].size());
  // Outlives `locked`, so that memory is freed after the locks.
  RecycledVector<Tensor> storage(plan.components.size());
  LockedComponents locked(plan.components);
  if (recorder == nullptr) counted_.reset();
  const auto unshare = [&](std::size_t begin, std::size_t end) {
    for (std::size_t k = begin; k < end; ++k)
      storage[k] = locked.unshared(k, LockedComponents::Storage::copied);
  };
  const std::size_t counters = plan.num_of_variables;
  bool any_shared = false;
  for (std::size_t k = 0; k < counters; ++k) any_shared = any_shared || locked.is_shared(k);
  if (recorder != nullptr)  // they stay where launches find them
    for (std::size_t k = 0; k < counters; ++k) locked.begin_write(k);
  else if (any_shared)
    for_each_component([&](std::size_t i) {
      for (const ComponentUpdate& one : plan.updates[i]) unshare(one.begin, one.begin + one.num_tensors);
    });
  if (recorder == nullptr)
    unshare(counters, locked.size());
  else
    for (std::size_t k = counters; k < locked.size(); ++k) locked.begin_counted_write(k);

  locked.replace(storage);
  if (extended) std::swap(tracked_, extended);
  backend::UpdateParameters parameters;
  const bool is_one_call = update_parameters(step, parameters);
  const auto update_component = [&](std::size_t i) {
    std::optional<detail::UpdateBatch> batch_of_updates;
    if (is_one_call) batch_of_updates.emplace(batches[i]);
    for (ComponentUpdate& one : plan.updates[i]) {
      for (std::size_t k = 0; k < one.num_tensors; ++k) one.tensors.push_back(locked[one.begin + k]);
      Tensor& variable = one.tensors.back();
      const DeviceScope here(variable.device());
      std::optional<detail::TracedUpdate> traced;
      if (recorder != nullptr) traced.emplace(recorder->numbers_on(variable.device(), place));
      update(variable, gradients[i][one.gradient], std::span(one.tensors).first(one.num_tensors - 1), step);
    }
    if (batch_of_updates) batch_of_updates->make();
  };
  try {
    for_each_component(update_component);
    if (recorder == nullptr)
      for (std::size_t k = counters; k < locked.size(); ++k) locked[k].fill_(step.number);
  } catch (const std::exception& error) {
    if (recorder == nullptr)
      detail::abandon(strategy, concat(what, " of ", name_, " has failed halfway: ", error.what()));
    throw;
  }
  if (recorder != nullptr) {
    for (std::size_t k = counters; k < locked.size(); ++k) {
      const StreamRef stream = current_stream(locked[k].device());
      const auto* const numbers =
          reinterpret_cast<const backend::StepNumbers*>(recorder->numbers_on(locked[k].device(), place));
      stream.device_backend().copy(locked[k].view().data, &numbers->step, sizeof numbers->step,
                                   stream.handle());
    }
    return;
  }
  counted_ = locked.num_writes(counters);
  num_steps_ = step.number;
}

void Optimizer::build(const std::vector<Variable>& variables) {
  if (variables.empty()) return;
  Strategy& strategy = in_cross_replica_context() ? get_strategy() : variables[0].strategy();
  detail::call_serialised(strategy, "build", [&] {
    for (const Variable& variable : variables) {
      LOCKSTEP_EXPECTS(&variable.strategy() == &strategy, InvalidArgument, "build of ", name_,
                       " for the variable '", variable.name(), "' in ", strategy.name(),
                       ": it was made by another strategy, ", variable.strategy().name(),
                       ". Make it in this strategy's scope.");
    }
    detail::check_variables(variables, "build");
    check_strategy(strategy);
    if (std::unique_ptr<Tracked> extended = tracked_with(variables)) std::swap(tracked_, extended);
  });
}

void Optimizer::check_strategy(const Strategy& strategy) const {
  LOCKSTEP_EXPECTS(!tracked_->iterations || &tracked_->iterations->strategy() == &strategy, InvalidArgument,
                   name_, ": it has updated variables of ", tracked_->iterations->strategy().name(),
                   " before, these are of ", strategy.name(), ". Use one optimizer for each strategy.");
}

std::unique_ptr<Optimizer::Tracked> Optimizer::tracked_with(std::span<const Variable> variables) const {
  const auto identity = [](const Variable& variable) { return VariableAccess::state(variable).get(); };
  if (std::ranges::all_of(variables, [&](const Variable& variable) {
        return tracked_->positions.contains(identity(variable));
      }))
    return {};
  auto extended = std::make_unique<Tracked>(*tracked_);
  Tracked& tracked = *extended;
  if (!tracked.iterations) {
    const DeviceScope here(VariableAccess::devices(variables[0])[0]);
    tracked.iterations.emplace(Tensor::scalar(std::int64_t{0}),
                               VariableOptions{.name = "iterations",
                                               .trainable = false,
                                               .aggregation = VariableAggregation::only_first_replica});
  }
  for (const Variable& variable : variables) {
    if (!tracked.positions.try_emplace(identity(variable), tracked.entries.size()).second) continue;
    std::string name = variable.name();
    for (int n = 1; tracked.names.contains(name); ++n) name = concat(variable.name(), "_", n);
    Entry entry{variable, name, {}};
    for (const std::string& slot : slot_names_)
      entry.slots.push_back(make_slot(variable, concat(name, "/", slot)));
    tracked.entries.push_back(std::move(entry));
    tracked.names.insert(std::move(name));
  }
  return extended;
}

std::int64_t Optimizer::num_steps() const {
  if (!tracked_->iterations) return 0;
  const Variable& counter = *tracked_->iterations;
  if (counted_ && detail::num_writes(counter, 0) == counted_) return num_steps_;
  const detail::TraceScope outside(/*has_rules=*/false, nullptr);  // the step does not depend on this
  const auto written = detail::read_component(counter, 0).item<std::int64_t>();
  LOCKSTEP_EXPECTS(written >= 0 && written < std::numeric_limits<std::int64_t>::max(), InvalidArgument, name_,
                   ": its iterations were set to ", written, ". Set a number of steps that were made.");
  return written;
}

Variable Optimizer::iterations() const {
  LOCKSTEP_EXPECTS(tracked_->iterations.has_value(), ContextError, "iterations of ", name_,
                   ": it has met no variable yet, and so has no strategy. Call build(variables) first.");
  return *tracked_->iterations;
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
  if (tracked_->iterations) all.emplace_back("iterations", *tracked_->iterations);
  for (const Entry& entry : tracked_->entries)
    for (std::size_t k = 0; k < slot_names_.size(); ++k)
      all.emplace_back(concat(entry.name, "/", slot_names_[k]), entry.slots[k]);
  return all;
}

}  // namespace lockstep::optim
