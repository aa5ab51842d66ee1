#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <lockstep/strategy/strategy.hpp>

#include "operations/operation.hpp"
#include "options/options.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// Measures one operation of a MirroredStrategy, which runs its replicas on threads of its own; the calling
/// thread makes the calls. Such an operation has no form in place: both halves of the table show a
/// measurement of its one form.
class StrategyRunner {
 public:
  /// @pre all sizes of `options` but the largest fit into memory; see fit_to_memory.
  StrategyRunner(const Options& options, const OperationEntry& entry);

  /// The bytes that the replicas' devices hold.
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
