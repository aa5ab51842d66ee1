#include "strategy/context/context.hpp"

#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "detail/expects.hpp"
#include "strategy/context/default_strategy.hpp"
#include "strategy/runtime/strategy_state.hpp"

namespace lockstep {

namespace {

thread_local std::optional<detail::ContextFrame> set_frame;  // set_strategy's, always the outermost

/// Names the replica in errors of its function that name none.
void add_replica(ErrorContext& context) {
  for (const detail::ContextFrame* frame = detail::ContextFrame::innermost(); frame != nullptr;
       frame = frame->outer()) {
    if (frame->mode() == detail::ContextFrame::Mode::default_context) return;
    if (frame->mode() != detail::ContextFrame::Mode::replica || frame->replica_context() == nullptr) continue;
    const int replica = frame->replica_context()->replica_id_in_sync_group();
    if (context.replica < 0) context.replica = replica;
    if (context.replica == replica && context.device.empty()) context.device = current_device().to_string();
    return;
  }
}
[[maybe_unused]] const bool adds_replica = (detail::error_place = add_replica, true);

}  // namespace

namespace detail {

std::weak_ptr<const Strategy> life_of(const Strategy& strategy) noexcept {
  return StrategyState::of(strategy).calls().life();
}

void check_is_of(const ContextFrame& frame, const Strategy& own, std::string_view what) {
  const Strategy& other = frame.strategy();
  LOCKSTEP_EXPECTS(&other == &own || frame.mode() != ContextFrame::Mode::replica, ContextError, what, " of ",
                   own.name(), " in the function of replica ",
                   frame.replica_context()->replica_id_in_sync_group(), " of a run of another strategy, ",
                   other.name(),
                   ". Strategies cannot be mixed: use in a run what its own strategy has made.");
  LOCKSTEP_EXPECTS(&other == &own, ContextError, what, " of ", own.name(),
                   " inside the scope of another strategy, ", other.name(),
                   ". Strategies cannot be mixed: leave that scope first.");
}

}  // namespace detail

using detail::ContextFrame;
using Mode = ContextFrame::Mode;

Strategy& get_strategy() {
  const ContextFrame* frame = ContextFrame::top();
  return frame != nullptr ? frame->strategy() : detail::default_strategy();
}

bool has_strategy() { return &get_strategy() != &detail::default_strategy(); }

bool in_cross_replica_context() {
  const ContextFrame* frame = ContextFrame::top();
  return frame != nullptr && frame->mode() != Mode::replica;
}

void detail::check_not_in_replica(std::string_view what) {
  LOCKSTEP_EXPECTS(!has_strategy() || in_cross_replica_context(), ContextError, what,
                   ": called in a replica function. Fetch outside, and pass the value to run.");
}

ReplicaContext* get_replica_context() {
  const ContextFrame* frame = ContextFrame::top();
  return frame != nullptr ? frame->replica_context() : &detail::default_replica_context();
}

std::optional<int> get_update_replica_id() {
  const ContextFrame* frame = ContextFrame::top();
  if (frame == nullptr || frame->mode() != Mode::update) return std::nullopt;
  return frame->update_index();
}

void set_strategy(Strategy* strategy) {
  const bool settable =
      ContextFrame::innermost() == nullptr || (set_frame && ContextFrame::innermost() == &*set_frame);
  LOCKSTEP_EXPECTS(settable, ContextError, "set_strategy(",
                   strategy != nullptr ? strategy->name() : "nullptr", ") inside a scope of ",
                   get_strategy().name(), ". Leave the scope first.");
  set_frame.reset();
  if (strategy != nullptr && strategy != &detail::default_strategy())
    set_frame.emplace(Mode::cross_replica, *strategy, detail::life_of(*strategy));
}

namespace {

/// The mode of a new scope of the strategy's.
Mode checked_mode(Strategy& strategy) {
  detail::check_cross_replica(strategy, "scope");
  const bool is_default = &strategy == &detail::default_strategy();
  return is_default && ContextFrame::top() == nullptr ? Mode::default_scope : Mode::cross_replica;
}

}  // namespace

StrategyScope::StrategyScope(Strategy& strategy)
    : frame_(checked_mode(strategy), strategy, detail::life_of(strategy)) {}

}  // namespace lockstep
