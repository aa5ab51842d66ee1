#pragma once

#include <memory>
#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/input/distributed_dataset.hpp>

#include "input/fetching.hpp"
#include "input/prefetch_pass.hpp"

namespace lockstep::detail {

/// How one element for each replica becomes a step.
struct StepPlan {
  std::vector<Device> devices;   ///< Where the replicas' elements go.
  int num_ahead = 0;             ///< How many steps a thread keeps ready; 0: none, and no thread.
  bool fills_with_empty = true;  ///< A replica without an element gets one without rows; false: the step is
                                 ///< dropped, and the pass ends.
};

/// A step on its way to the replicas.
using FetchedStep = std::vector<FetchedElement>;

/// Passes that replicas take from in turn: one, or one for each replica.
using PartPasses = std::vector<std::unique_ptr<Pass<Part>>>;

/// Deals parts to replicas.
class DealPass final : public Pass<FetchedStep> {
 public:
  DealPass(PartPasses parts, std::shared_ptr<const StepPlan> plan);
  std::optional<FetchedStep> next() override;

 private:
  PartPasses parts_;
  std::shared_ptr<const StepPlan> plan_;  // owners: the distributed dataset and its passes
  std::vector<std::unique_ptr<Fetcher>> fetchers_;
  bool ended_ = false;
};

/// Hands steps to the calling thread.
class ReceivePass final : public StepPass {
 public:
  ReceivePass(std::function<PartPasses()> open, std::shared_ptr<const StepPlan> plan);
  /// @throws ContextError  in a replica function.
  std::optional<Step> next() override;
  std::int64_t num_waits() const noexcept override { return num_waits_; }

 private:
  std::shared_ptr<const StepPlan> plan_;  // owners: as DealPass's
  std::unique_ptr<Pass<FetchedStep>> steps_;
  PrefetchPass<FetchedStep>* ahead_ = nullptr;  // steps_, if it has a thread
  std::int64_t num_waits_ = 0;
};

}  // namespace lockstep::detail
