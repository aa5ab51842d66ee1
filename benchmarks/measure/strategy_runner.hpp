#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <lockstep/strategy/strategy.hpp>

#include "measure/measurement.hpp"
#include "operations/operation.hpp"
#include "options/options.hpp"
#include "processes/processes.hpp"
#include "report/results.hpp"

namespace lockstep::bench {

/// Measures one operation of a MirroredStrategy, in several processes of a MultiWorkerMirroredStrategy, which
/// runs its replicas on threads of its own; the calling thread of each process makes the calls. Such an
/// operation has no form in place: both halves of the table show a measurement of its one form.
class StrategyRunner {
 public:
  /// @pre all sizes of `options` but the largest fit into memory; see fit_to_memory.
  StrategyRunner(const Options& options, const OperationEntry& entry, const Processes& processes);

  /// The bytes that this process's replicas' devices hold.
  std::int64_t allocated_bytes() const;
  /// Runs the sweep; `on_row` is called after each row, with the same row in all processes.
  void run(const std::function<void(const Row&)>& on_row);

 private:
  Placement measure(StrategyOperation& operation);
  void time_calls(StrategyOperation& operation, int iterations, const Counting* counting, Measurement& mine);
  double time_floor(StrategyOperation& operation, int iterations);
  void synchronize() const;

  const Options& options_;
  const OperationEntry& entry_;
  const Processes& processes_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace lockstep::bench
