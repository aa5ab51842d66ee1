#pragma once

#include <memory>
#include <vector>

#include <lockstep/device.hpp>
#include <lockstep/input/distributed_dataset.hpp>

namespace lockstep::detail {

/// How one element for each replica becomes a step.
struct StepPlan {
  std::vector<Device> devices;   ///< Of the replicas.
  bool fetch_to_device = true;   ///< Copy components to these.
  bool fills_with_empty = true;  ///< A replica without an element gets one without rows; false: the step is
                                 ///< dropped, and the pass ends.
};

/// Deals elements to replicas.
class StepPass final : public Pass<Step> {
 public:
  /// @param elements  one pass that replicas take from in turn, or one for each replica.
  StepPass(std::vector<std::unique_ptr<Pass<FlatElement>>> elements, std::shared_ptr<const StepPlan> plan)
      : elements_(std::move(elements)), plan_(std::move(plan)) {}
  /// @throws ContextError  in a replica function.
  std::optional<Step> next() override;

 private:
  std::vector<std::unique_ptr<Pass<FlatElement>>> elements_;
  std::shared_ptr<const StepPlan> plan_;  // owners: the distributed dataset and its passes
  bool ended_ = false;
};

}  // namespace lockstep::detail
