#include "input/pipeline/stopping.hpp"

#include <utility>

#include "detail/thread_end.hpp"

namespace lockstep::detail {
namespace {

// The outer pass above this thread. It is a plain pointer, which outlives thread_local objects that have
// destructors.
thread_local const ThreadStop* outer_of_thread = nullptr;

StopTokens& tokens() noexcept {
  thread_local StopTokens tokens;
  return tokens;
}

}  // namespace

const std::stop_token& current_stop_token() noexcept { return tokens().current; }

void check_stop() {
  if (tokens().current.stop_requested()) throw Stopped();
}

void ThreadStop::follow_owner() {
  owner_.emplace(tokens().owner, Request{source_});
  outer_ = tokens().outer;
}

bool ThreadStop::stops_this_thread() const noexcept { return outer_of_thread == this; }

StopScope::StopScope(StopTokens now) : before_(std::exchange(tokens(), std::move(now))) {}

StopScope::StopScope(const std::stop_token& token) : StopScope(StopTokens{token, token}) {}

StopScope::StopScope(const ThreadStop& stop)
    : StopScope(StopTokens{stop.token(), stop.token(), stop.outer_}) {
  outer_of_thread = stop.outer_;
  ThreadEnd::watch();
}

StopScope::StopScope(std::stop_token token, const ThreadStop& outer)
    : StopScope(StopTokens{std::move(token), outer.token(), &outer}) {}

StopScope::~StopScope() { tokens() = std::move(before_); }

}  // namespace lockstep::detail
