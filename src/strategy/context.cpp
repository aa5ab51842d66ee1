#include <lockstep/device_manager.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/context.hpp>
#include <lockstep/strategy/replica_context.hpp>
#include <lockstep/strategy/strategy.hpp>

#include "strategy/default_strategy.hpp"
#include "strategy/strategy_state.hpp"

namespace lockstep {

namespace {

thread_local detail::ContextFrame* innermost_frame = nullptr;
thread_local std::optional<detail::ContextFrame> set_frame;  // what set_strategy made, always the outermost

/// Errors thrown in a replica function are about that replica, unless they say otherwise.
void add_replica(ErrorContext& context) {
  for (const detail::ContextFrame* frame = innermost_frame; frame != nullptr; frame = frame->outer()) {
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

ContextFrame::ContextFrame(Mode mode, Strategy& strategy, ReplicaContext* replica_context, int update_index,
                           VariableUpdate* update) noexcept
    : mode_(mode),
      strategy_(strategy),
      replica_context_(replica_context),
      update_index_(update_index),
      update_(update) {}

ContextFrame::ContextFrame(Kept, Mode mode, Strategy& strategy) : ContextFrame(mode, strategy) {
  life_ = strategy.state_->life;
}

void ContextFrame::raise_strategy_destroyed() {
  raise<ContextError>(
      {__FILE__, __LINE__, __func__},
      "This thread is in the scope of a strategy that has been destroyed. Leave the scope, or "
      "call set_strategy(nullptr), before the strategy is.");
}

void ContextFrame::check_is_of(const Strategy& own, std::string_view what) const {
  const Strategy& other = strategy();
  LOCKSTEP_EXPECTS(&other == &own || mode_ != Mode::replica, ContextError, what, " of ", own.name(),
                   " in the function of replica ", replica_context_->replica_id_in_sync_group(),
                   " of a run of another strategy, ", other.name(),
                   ". Strategies cannot be mixed: use in a run what its own strategy has made.");
  LOCKSTEP_EXPECTS(&other == &own, ContextError, what, " of ", own.name(),
                   " inside the scope of another strategy, ", other.name(),
                   ". Strategies cannot be mixed: leave that scope first.");
}

bool ContextFrame::is_in_call_of(const Strategy& strategy) noexcept {
  for (const ContextFrame* frame = innermost_frame; frame != nullptr; frame = frame->outer())
    if (&frame->strategy_ == &strategy && !frame->is_kept()) return true;
  return false;
}

ContextFrame*& ContextFrame::innermost() noexcept { return innermost_frame; }

DefaultContext::DefaultContext() : frame_(ContextFrame::Mode::default_context, default_strategy()) {}

const ContextFrame* ContextFrame::top() noexcept {
  const ContextFrame* frame = innermost_frame;
  while (frame != nullptr && frame->mode() == Mode::default_scope) frame = frame->outer();
  return frame != nullptr && frame->mode() == Mode::default_context ? nullptr : frame;
}

bool ContextFrame::in_default_scope() noexcept {
  for (const ContextFrame* frame = innermost_frame; frame != nullptr; frame = frame->outer()) {
    if (frame->mode() == Mode::default_context) return false;
    if (frame->mode() == Mode::default_scope) return true;
  }
  return false;
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
      innermost_frame == nullptr || (set_frame.has_value() && innermost_frame == &*set_frame);
  LOCKSTEP_EXPECTS(settable, ContextError, "set_strategy(",
                   strategy != nullptr ? strategy->name() : "nullptr", ") inside a scope of ",
                   get_strategy().name(), ". Leave the scope first.");
  set_frame.reset();
  if (strategy != nullptr && strategy != &detail::default_strategy())
    set_frame.emplace(ContextFrame::Kept(), Mode::cross_replica, *strategy);
}

namespace {

/// The mode of a scope of the strategy's that is entered here.
Mode checked_mode(Strategy& strategy) {
  strategy.extended().check_cross_replica("scope");
  const bool is_default = &strategy == &detail::default_strategy();
  return is_default && ContextFrame::top() == nullptr ? Mode::default_scope : Mode::cross_replica;
}

}  // namespace

StrategyScope::StrategyScope(Strategy& strategy)
    : frame_(ContextFrame::Kept(), checked_mode(strategy), strategy) {}

}  // namespace lockstep
