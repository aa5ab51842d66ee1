#include <lockstep/error.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>

#include "cluster/worker_group.hpp"
#include "detail/expects.hpp"
#include "detail/thread_end.hpp"
#include "strategy/context/context.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/strategy_state.hpp"

namespace lockstep::detail {

namespace {

void in_frame(Strategy& strategy, FunctionRef<void()> fn) {
  const ContextFrame* const top = ContextFrame::top();
  if (&strategy == &default_strategy() || (top != nullptr && !top->is_kept())) return fn();
  ThreadEnd::watch();
  const ContextFrame frame(ContextFrame::Mode::cross_replica, strategy);
  fn();
}

}  // namespace

void check_cross_replica(const Strategy& strategy, std::string_view what) {
  const ContextFrame* const top = ContextFrame::top();
  if (top == nullptr) return;
  check_is_of(*top, strategy, what);
  LOCKSTEP_EXPECTS(top->mode() != ContextFrame::Mode::replica, ContextError, what, " of ", strategy.name(),
                   " inside replica ", top->replica_context()->replica_id_in_sync_group(),
                   "'s function. Use the ReplicaContext's all_reduce or all_gather, or call it in a function "
                   "given to merge_call.");
}

void call_in_cross_replica_context(Strategy& strategy, std::string_view what, FunctionRef<void()> fn) {
  check_cross_replica(strategy, what);
  in_frame(strategy, fn);
}

void call_serialised(Strategy& strategy, std::string_view what, FunctionRef<void()> fn) {
  check_cross_replica(strategy, what);
  // The default strategy's calls share nothing: a lock would be one for all threads of the process.
  if (&strategy == &default_strategy()) return fn();
  StrategyState& state = StrategyState::of(strategy);
  const StrategyCalls::Call call(state.calls(), what);
  if (state.workers() == nullptr || !call.is_outermost()) return in_frame(strategy, fn);
  // The other workers would wait for what this one does not do.
  state.workers()->meeting().begin_call();
  try {
    in_frame(strategy, fn);
    state.workers()->meeting().end_call();
  } catch (...) {
    state.fail_workers(std::current_exception());
    throw;
  }
}

}  // namespace lockstep::detail
