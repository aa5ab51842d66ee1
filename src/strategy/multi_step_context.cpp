#include <algorithm>

#include <lockstep/error.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/multi_step_context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/expects.hpp"

namespace lockstep {

namespace {

/// The replica whose function this thread runs; null outside `run`.
ReplicaContext* replica_in_run() {
  const auto* const top = detail::ContextFrame::top();
  return top != nullptr && top->mode() == detail::ContextFrame::Mode::replica ? top->replica_context()
                                                                              : nullptr;
}

void check_same_name(std::string_view what, const PerReplica<std::string>& names) {
  for (int i = 1; i < names.size(); ++i)
    LOCKSTEP_EXPECTS(names[i] == names[0], CollectiveMismatch, what, ": replica ", i, " sets the output '",
                     names[i], "' where replica 0 sets '", names[0],
                     "'. Make the same calls on every replica.");
}

}  // namespace

namespace detail {

void check_iterations(int iterations) {
  LOCKSTEP_EXPECTS(iterations >= 1, InvalidArgument, "run_steps_on_iterator: ", iterations,
                   " iterations have no last step. Make at least one.");
}

}  // namespace detail

MultiStepContext::MultiStepContext(Strategy& strategy) : strategy_(&strategy) {}
MultiStepContext::MultiStepContext(const MultiStepContext& other) = default;
MultiStepContext::MultiStepContext(MultiStepContext&& other) noexcept = default;
MultiStepContext& MultiStepContext::operator=(const MultiStepContext& other) = default;
MultiStepContext& MultiStepContext::operator=(MultiStepContext&& other) noexcept = default;
MultiStepContext::~MultiStepContext() = default;

void MultiStepContext::set_last_step_output(const std::string& name, const ReduceValue& value, ReduceOp op) {
  const auto keep = [&](const ReduceValue& all) {
    outputs_.insert_or_assign(name, PerReplica<Tensor>({strategy_->reduce(op, all)}));
  };
  ReplicaContext* const context = replica_in_run();
  if (context == nullptr) return keep(value);
  LOCKSTEP_EXPECTS(value.num_components() == 1 && !value.is_sparse(), InvalidArgument,
                   "set_last_step_output('", name, "') in a replica function: a value with ",
                   value.num_components(), " components. Pass the replica's own Tensor.");
  context->merge_call_as(
      "set_last_step_output",
      [&](Strategy&, const PerReplica<std::string>& names, const PerReplica<Tensor>& all) {
        check_same_name("set_last_step_output", names);
        keep(all);
      },
      name, value.tensors()[0]);
}

void MultiStepContext::set_last_step_output(const std::string& name, const PerReplica<Tensor>& value) {
  LOCKSTEP_EXPECTS(
      replica_in_run() == nullptr, InvalidArgument, "set_last_step_output('", name,
      "') in a replica function: replicas may give different values. Say how to combine them: pass "
      "a ReduceOp.");
  outputs_.insert_or_assign(name, value);
}

void MultiStepContext::set_last_step_output(const std::string& name, const Tensor& value) {
  set_last_step_output(name, PerReplica<Tensor>({value}));
}

StepOutputs MultiStepContext::last_step_outputs() const&& { return outputs_; }
std::map<std::string, std::vector<std::any>> MultiStepContext::non_tensor_outputs() const&& {
  return non_tensor_outputs_;
}

void MultiStepContext::set_non_tensor(const std::string& name, std::any value,
                                      bool (*equal)(const std::any& a, const std::any& b)) {
  ReplicaContext* const context = replica_in_run();
  if (context == nullptr) {
    non_tensor_outputs_.insert_or_assign(name, std::vector<std::any>{std::move(value)});
    return;
  }
  context->merge_call_as(
      "set_non_tensor_output",
      [&](Strategy&, const PerReplica<std::string>& names, const PerReplica<std::any>& values) {
        check_same_name("set_non_tensor_output", names);
        std::vector<std::any> all(values.begin(), values.end());
        if (std::ranges::all_of(all, [&](const std::any& other) { return equal(all[0], other); }))
          all.resize(1);
        non_tensor_outputs_.insert_or_assign(name, std::move(all));
      },
      name, value);
}

void MultiStepContext::begin_step(const StepOutputs& initial) {
  outputs_ = initial;
  non_tensor_outputs_.clear();
}

}  // namespace lockstep
