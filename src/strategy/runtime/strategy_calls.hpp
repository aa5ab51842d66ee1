#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>

#include <lockstep/detail/mutex.hpp>

#include "detail/process.hpp"
#include "strategy/runtime/replica_threads.hpp"

namespace lockstep {
class Strategy;
}

namespace lockstep::detail {

/// The calls of a strategy. Those of several threads are serialised; none begins once the strategy is being
/// destroyed.
class StrategyCalls {
 public:
  /// All outlive this. @param name  for messages. @param is_of_process  no fork may call it, whether it has
  /// started threads or not.
  StrategyCalls(const Strategy& strategy, std::string_view name, ReplicaThreads& threads, bool is_of_process);

  /// One call. While it lives other threads' calls wait; the same thread may begin further ones, as merge
  /// functions do.
  class Call {
   public:
    /// @throws ContextError  the strategy is being destroyed; or this process is a fork, and has none of the
    /// threads that the strategy has started, or that were in a call of it. Names `what`.
    Call(StrategyCalls& calls, std::string_view what);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    /// Whether it is in no other call of the strategy.
    bool is_outermost() const noexcept { return is_outermost_; }

   private:
    StrategyCalls& calls_;
    const std::unique_lock<RecursiveMutex> lock_;
    const Process outer_;
    const bool is_outermost_;
  };
  /// The same for a call that need not happen: not locked where another thread's call is under way.
  std::unique_lock<RecursiveMutex> try_lock() noexcept;

  /// Expires when the strategy is destroyed.
  std::weak_ptr<const Strategy> life() const noexcept { return life_; }

  /// Before the destruction: waits for the calls of other threads, refuses further ones, and ends the
  /// replicas' threads, whose thread_local objects may still read variables.
  /// @return whether the strategy can be destroyed. Not in a fork, where only its life ends, nor when
  /// std::exit destroys it while it is in use: that waits for no calls. In a function that one of the calls
  /// has called, nothing but std::exit may destroy it: else the program ends.
  bool close();

 private:
  /// Whether calls could wait for threads of a process that this one is a fork of.
  bool is_forked() const noexcept {
    return threads_.is_forked() || called_in_.load(std::memory_order_relaxed).is_forked() || mutex_.is_lost();
  }

  const Strategy& strategy_;
  const std::string_view name_;
  ReplicaThreads& threads_;
  std::shared_ptr<const Strategy> life_;
  RecursiveMutex mutex_{"a strategy"};
  std::atomic<Process> called_in_;  // where a call is under way, or its own
  bool is_closed_ = false;          // guarded by mutex_
  int depth_ = 0;                   // of calls; guarded by mutex_
};

}  // namespace lockstep::detail
