#include "strategy/runtime/strategy_calls.hpp"

#include <exception>

#include <lockstep/detail/context_frame.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"
#include "detail/thread_end.hpp"
#include "detail/warn.hpp"

namespace lockstep::detail {

namespace {

/// Neither the call could go on, nor the threads that wait for this one in it.
[[noreturn]] void destroyed_in_own_call(std::string_view strategy) {
  warn(concat(strategy,
              " was destroyed in a function that one of its own calls, as run, update or make_variable, has "
              "called, and that call cannot go on without it. Destroy a strategy after its calls have "
              "returned."));
  std::terminate();
}

}  // namespace

StrategyCalls::StrategyCalls(const Strategy& strategy, std::string_view name, ReplicaThreads& threads,
                             bool is_of_process)
    : strategy_(strategy),
      name_(name),
      threads_(threads),
      life_(&strategy, [](const Strategy*) {}),
      called_in_(is_of_process ? Process() : Process::none()) {
  ThreadEnd::watch();
}

StrategyCalls::Call::Call(StrategyCalls& calls, std::string_view what)
    : calls_(calls),
      lock_([&] {
        LOCKSTEP_EXPECTS(!calls.is_forked(), ContextError, what,
                         ": this process is a fork of the one in which ", calls.name_,
                         " was used, and has none of its threads. Make the strategy after the fork, or fork "
                         "before its first run.");
        return std::unique_lock(calls.mutex_);
      }()),
      outer_(calls.called_in_.load(std::memory_order_relaxed)),
      is_outermost_(calls.depth_ == 0) {
  LOCKSTEP_EXPECTS(
      !calls.is_closed_, ContextError, what,
      ": the strategy is being destroyed. Make no calls of it then: end the threads that do, and "
      "thread_local objects, before.");
  calls.called_in_.store(Process(), std::memory_order_relaxed);
  ++calls.depth_;
}

StrategyCalls::Call::~Call() {
  // A fork that was made meanwhile cannot unlock the mutex.
  if (calls_.called_in_.load(std::memory_order_relaxed).is_forked()) return;
  calls_.called_in_.store(outer_, std::memory_order_relaxed);
  --calls_.depth_;
}

std::unique_lock<RecursiveMutex> StrategyCalls::try_lock() noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!is_forked()) static_cast<void>(lock.try_lock());
  return lock;
}

bool StrategyCalls::close() {
  if (ContextFrame::is_in_call_of(strategy_)) {
    if (!ThreadEnd::has_begun()) destroyed_in_own_call(name_);
    return false;
  }
  if (is_forked()) {
    life_.reset();
    return false;
  }
  {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!ThreadEnd::has_begun())
      lock.lock();
    else if (!lock.try_lock())
      return false;
    is_closed_ = true;
  }
  threads_.stop();
  return true;
}

}  // namespace lockstep::detail
