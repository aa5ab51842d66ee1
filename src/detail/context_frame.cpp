#include <utility>

#include <lockstep/detail/context_frame.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

ContextFrame::ContextFrame(Mode mode, Strategy& strategy, ReplicaContext* replica_context, int update_index,
                           VariableUpdate* update) noexcept
    : mode_(mode),
      strategy_(&strategy),
      replica_context_(replica_context),
      update_index_(update_index),
      update_(update) {}

ContextFrame::ContextFrame(Mode mode, Strategy& strategy, std::weak_ptr<const Strategy> life)
    : ContextFrame(mode, strategy) {
  life_ = std::move(life);
}

ContextFrame::ContextFrame() noexcept
    : mode_(Mode::default_context),
      strategy_(nullptr),
      replica_context_(nullptr),
      update_index_(-1),
      update_(nullptr) {}

void ContextFrame::raise_strategy_destroyed() {
  raise<ContextError>(
      {__FILE__, __LINE__, __func__},
      "This thread is in the scope of a strategy that has been destroyed. Leave the scope, or "
      "call set_strategy(nullptr), before the strategy is.");
}

ContextFrame*& ContextFrame::innermost() noexcept {
  thread_local ContextFrame* frame = nullptr;
  return frame;
}

const ContextFrame* ContextFrame::top() noexcept {
  const ContextFrame* frame = innermost();
  while (frame != nullptr && frame->mode() == Mode::default_scope) frame = frame->outer();
  return frame != nullptr && frame->mode() == Mode::default_context ? nullptr : frame;
}

bool ContextFrame::in_default_scope() noexcept {
  for (const ContextFrame* frame = innermost(); frame != nullptr; frame = frame->outer()) {
    if (frame->mode() == Mode::default_context) return false;
    if (frame->mode() == Mode::default_scope) return true;
  }
  return false;
}

bool ContextFrame::is_in_call_of(const Strategy& strategy) noexcept {
  for (const ContextFrame* frame = innermost(); frame != nullptr; frame = frame->outer())
    if (frame->strategy_ == &strategy && !frame->is_kept()) return true;
  return false;
}

}  // namespace lockstep::detail
