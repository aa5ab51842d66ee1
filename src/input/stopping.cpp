#include "input/stopping.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

std::stop_token& current() noexcept {
  thread_local std::stop_token token;
  return token;
}

}  // namespace

const std::stop_token& current_stop_token() noexcept { return current(); }

StopScope::StopScope(std::stop_token token) : before_(std::exchange(current(), std::move(token))) {}
StopScope::~StopScope() { current() = std::move(before_); }

void check_stop() {
  if (current().stop_requested()) throw Stopped();
}

}  // namespace lockstep::detail
