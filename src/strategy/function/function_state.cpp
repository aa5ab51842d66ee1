#include "strategy/function/function_state.hpp"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include <lockstep/backend/device_backend.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/sync_on_read.hpp>

#include "detail/expects.hpp"
#include "detail/tracing.hpp"
#include "detail/warn.hpp"
#include "strategy/context/context.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/function/trace.hpp"
#include "strategy/runtime/strategy_state.hpp"

namespace lockstep::detail {

namespace {

constexpr std::string_view kHost = "the host has no graphs";

/// Why work of the strategy cannot be captured; empty: it can.
std::string_view why_no_graphs(Strategy& strategy) {
  if (&strategy == &default_strategy())
    return current_device().kind() == DeviceKind::cpu ? kHost : "its device is whatever is current";
  StrategyState& state = StrategyState::of(strategy);
  const std::vector<Device> devices = state.all_devices();
  const auto captures = [](const Device& device) {
    return DeviceManager::instance().open(device).graphs() != nullptr;
  };
  if (std::ranges::none_of(devices, captures)) return kHost;
  if (!std::ranges::all_of(devices, captures)) return "its variables are on the host";
  if (state.workers() != nullptr) return "its workers meet on their hosts";
  return state.cross_device_ops() == nullptr ? "" : "its CrossDeviceOps may work on the host";
}

}  // namespace

FunctionState::FunctionState(Strategy& strategy, const FunctionOptions& options)
    : strategy_(strategy),
      life_(life_of(strategy)),
      max_traces_(options.max_traces),
      takes_addresses_(options.takes_addresses),
      why_no_graphs_(why_no_graphs(strategy)) {
  LOCKSTEP_EXPECTS(max_traces_ >= 1, InvalidArgument, "function: max_traces is ", max_traces_,
                   ". It must be at least 1.");
}

Strategy& FunctionState::strategy() const {
  LOCKSTEP_EXPECTS(!life_.expired(), ContextError,
                   "function: the strategy that it is of has been destroyed. Keep a strategy for as long as "
                   "its functions are called.");
  return strategy_;
}

std::shared_ptr<Trace> FunctionState::find(const FunctionCall& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(traces_, [&](const auto& trace) { return trace->fits(call); });
  return found == traces_.end() ? nullptr : *found;
}

bool FunctionState::is_full() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(traces_.size()) >= max_traces_;
}

int FunctionState::num_traces() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(traces_.size());
}

void FunctionState::run(FunctionCall& call, bool has_rules, TraceRecorder* recorder, const Trace* captured) {
  RecycledVector<Tensor> inputs;
  if (captured == nullptr) {
    inputs.reserve(call.inputs.size());
    for (const Tensor& input : call.inputs) inputs.push_back(input.defined() ? input.read_only() : input);
  }
  strategy().run_replicas([&](ReplicaContext& context, int i) {
    const TraceScope scope(has_rules, recorder);
    call.run_replica(context, i,
                     captured != nullptr ? captured->inputs_of(i)
                                         : inputs.data() + call.begins[static_cast<std::size_t>(i)]);
  });
  if (captured != nullptr) return;
  // Results are the caller's own, as those of a launch: neither arguments nor values of variables.
  for (int i = 0; i + 1 < static_cast<int>(call.begins.size()); ++i)
    call.for_each_result(i, [](Tensor& result) {
      if (result.defined() && result.is_read_only()) result = result.clone();
    });
}

bool FunctionState::can_capture(const FunctionCall& call) {
  if (!why_no_graphs_.empty()) {
    if (why_no_graphs_ != kHost && !has_told_.exchange(true))
      warn(concat("function: ", StrategyState::of(strategy_).kind().name,
                  "'s calls run without graphs: ", why_no_graphs_));
    return false;
  }
  const ReplicaGroups& groups = StrategyState::of(strategy_).groups();
  for (std::size_t i = 0; i + 1 < call.begins.size(); ++i) {
    for (std::size_t k = call.begins[i]; k < call.begins[i + 1]; ++k) {
      const Tensor& input = call.inputs[k];
      if (!input.defined() || std::ranges::any_of(groups, [&](const ReplicaGroup& group) {
            return group.devices()[i] == input.device();
          }))
        continue;
      if (!has_told_.exchange(true))
        warn(concat("function: an argument is ", describe(input), " for the replica on ",
                    groups.front().devices()[i],
                    ", so that its calls run without a graph. Pass tensors on their replica's device."));
      return false;
    }
  }
  return true;
}

void FunctionState::call(FunctionCall& call) {
  call_serialised(strategy(), "function", [&] {
    // Guards that change what a step reads, and where it works.
    call.signature.add(std::uint64_t{sync_on_read::is_active()});
    call.signature.add(std::uint64_t{StrategyState::of(strategy_).groups().current_index()});
    if (TraceScope::is_active())  // a merge function's call, which is a part of the call around it
      return run(call, TraceScope::has_rules(), TraceScope::recorder());
    if (takes_addresses_)
      for (const Tensor& input : call.inputs) call.signature.add_place(input);
    const std::shared_ptr<Trace> trace = find(call);
    if (trace == nullptr) return call_first(call);
    if (!can_capture(call)) return run(call, /*has_rules=*/true);
    StrategyState& state = StrategyState::of(strategy_);
    if (!trace->has_graphs())
      trace->capture(state, call, [&] { run(call, /*has_rules=*/true, trace.get(), trace.get()); });
    trace->launch(state, call);
  });
}

void FunctionState::call_first(FunctionCall& call) {
  if (is_full()) {
    if (!has_told_limit_.exchange(true))
      warn(concat("function: a call differs from the ", max_traces_,
                  " traces there are, which is the limit, and runs without one, as others will. Pass what "
                  "changes from call to call as Tensors, of few shapes, or set max_traces."));
    return run(call, false);
  }
  const auto trace = std::make_shared<Trace>(call, takes_addresses_);
  run(call, false, trace.get());
  const std::lock_guard lock(mutex_);
  traces_.push_back(trace);
}

void FunctionState::clear() {
  LOCKSTEP_EXPECTS(!TraceScope::is_active(), ContextError,
                   "clear of a function of a strategy in a call of one. Call it after the call.");
  drop();
}

void FunctionState::drop() {
  Traces traces;
  const std::lock_guard lock(mutex_);
  traces.swap(traces_);
}

}  // namespace lockstep::detail
