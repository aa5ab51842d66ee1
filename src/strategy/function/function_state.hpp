#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include <lockstep/detail/mutex.hpp>
#include <lockstep/strategy/function.hpp>

namespace lockstep::detail {

class StrategyState;
class Trace;
class TraceRecorder;

/// A function of a strategy: its traces.
class FunctionState {
 public:
  FunctionState(Strategy& strategy, const FunctionOptions& options);

  /// @throws ContextError  it was destroyed.
  Strategy& strategy() const;
  void call(FunctionCall& call);
  /// @throws ContextError  in a call of a function.
  void clear();
  /// Drops the traces.
  void drop();
  int num_traces() const;

 private:
  using Traces = std::vector<std::shared_ptr<Trace>>;

  std::shared_ptr<Trace> find(const FunctionCall& call) const;
  bool is_full() const;
  /// The first call of a signature.
  void call_first(FunctionCall& call);
  /// Runs the call's replicas. @param recorder  null: nothing is recorded. @param captured  the trace whose
  /// own inputs replace the call's; null: none.
  void run(FunctionCall& call, bool has_rules, TraceRecorder* recorder = nullptr,
           const Trace* captured = nullptr);
  /// Whether the call's work can be captured.
  bool can_capture(const FunctionCall& call);

  Strategy& strategy_;
  const std::weak_ptr<const Strategy> life_;
  const int max_traces_;
  const bool takes_addresses_;
  const std::string_view why_no_graphs_;  // static; empty: there are, where arguments are on their devices
  mutable Mutex mutex_{"a function of a strategy"};  // guards traces_
  Traces traces_;                                    // owners: this, and the calls under way
  std::atomic<bool> has_told_limit_{false}, has_told_{false};
};

}  // namespace lockstep::detail
