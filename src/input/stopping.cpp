#include "input/stopping.hpp"

#include <utility>

namespace lockstep::detail {
namespace {

struct Tokens {
  std::stop_token current, owner;
};

Tokens& tokens() noexcept {
  thread_local Tokens tokens;
  return tokens;
}

}  // namespace

const std::stop_token& current_stop_token() noexcept { return tokens().current; }

void check_stop() {
  if (tokens().current.stop_requested()) throw Stopped();
}

StopScope::StopScope(std::stop_token token, std::stop_token owner)
    : before_(std::exchange(tokens().current, std::move(token))),
      owner_before_(std::exchange(tokens().owner, std::move(owner))) {}

StopScope::~StopScope() { tokens() = {std::move(before_), std::move(owner_before_)}; }

void ThreadStop::follow_owner() { owner_.emplace(tokens().owner, Request{source_}); }

}  // namespace lockstep::detail
