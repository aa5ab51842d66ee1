#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include <lockstep/detail/function_ref.hpp>
#include <lockstep/strategy/replica_context.hpp>

#include "strategy/runtime/strategy_state.hpp"

namespace lockstep::detail {

/// One call of `run`, whose replicas meet in merge calls.
class ReplicaRun {
 public:
  explicit ReplicaRun(Strategy& strategy) : strategy_(strategy), state_(StrategyState::of(strategy)) {}

  StrategyState& state() noexcept { return state_; }

  /// Runs job(context) as replica i.
  void run_replica(int i, FunctionRef<void(ReplicaContext&, int)> job);

  /// ReplicaContext::merge on replica i. It cannot deadlock: replica 0 leaves the merge function by return or
  /// by exception, and then wakes the others, which serve nested runs meanwhile. Replica 0 waits only for
  /// replicas that are leaving the meeting, and for takers; neither waits for any thread.
  void merge(int i, const MergeArguments& arguments, FunctionRef<void(std::span<void* const>)> combine,
             FunctionRef<void()> merge_fn, void* result, FunctionRef<void(void*)> take);

 private:
  void merge_on_first(FunctionRef<void()> merge_fn, void* result, FunctionRef<void(void*)> take);

  Strategy& strategy_;
  StrategyState& state_;
  std::atomic<std::uint64_t> merges_done_{0};
  std::atomic<int> waiting_{0};  // replicas that have left the meeting and wait for the merge
  std::atomic<int> takers_{0};   // replicas that still read the result
  bool merge_failed_ = false;    // merges_done_ publishes these two
  void* result_ = nullptr;
  std::exception_ptr merge_error_;  // replica 0's: its function may swallow it, `run` does not
};

}  // namespace lockstep::detail
