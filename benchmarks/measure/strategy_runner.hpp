#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <lockstep/strategy/strategy.hpp>

#include "operations/operation.hpp"
#include "options.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// Measures one operation of a MirroredStrategy, which runs its replicas on threads of its own; the calling
/// thread makes the calls. Such an operation has one form, which both halves of the table show, one
/// measurement each.
class StrategyRunner {
 public:
  /// @pre all of `options` but its largest size fits into memory; see fit_to_memory.
  StrategyRunner(const Options& options, const OperationEntry& entry);

  /// What the replicas' devices hold.
  std::int64_t allocated_bytes() const;
  /// Runs the sweep; `on_row` is called after each row.
  void run(const std::function<void(const Row&)>& on_row);

 private:
  Placement measure(StrategyOperation& operation);
  double time_calls(StrategyOperation& operation, int iterations, std::vector<double>& iteration_seconds);
  double time_floor(StrategyOperation& operation, int iterations);
  void synchronize() const;

  const Options& options_;
  const OperationEntry& entry_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace lockstep::bench
