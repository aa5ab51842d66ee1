#pragma once

#include <memory>
#include <string>

#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "simulation/plan.hpp"

namespace lockstep::simulation {

using Workers = MultiWorkerMirroredStrategy;

/// The calls that make a worker's strategies, each within its limit.
class WorkerStart {
 public:
  WorkerStart(const Plan& plan, int worker) : plan_(plan), worker_(worker) {}

  /// With all of the plan.
  std::unique_ptr<Workers> start() const;
  /// With those whom `leader` leads. While they do not know that who had this worker's address is lost it
  /// comes again, as a launcher would let it.
  std::unique_ptr<Workers> join(const std::string& leader) const;
  /// Again and again, while more are lost.
  std::unique_ptr<Workers> shrink(Workers& strategy) const;
  /// Null: nobody has joined.
  std::unique_ptr<Workers> grow(Workers& strategy) const;

 private:
  WorkerOptions options() const;

  const Plan& plan_;
  const int worker_;
};

}  // namespace lockstep::simulation
