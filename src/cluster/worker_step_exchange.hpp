#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/input/step_exchange.hpp>

#include "cluster/worker_connection.hpp"

namespace lockstep::detail {

/// The steps of one pass, through the workers' control connection.
class WorkerStepExchange final : public StepExchange {
 public:
  /// Begins the next pass of the connection, as all workers do in the same order.
  explicit WorkerStepExchange(std::shared_ptr<WorkerConnection> connection);
  ~WorkerStepExchange() override { leave(); }

  std::vector<std::string> all_gather(std::string message) override;
  void leave() noexcept override;

 private:
  const std::shared_ptr<WorkerConnection> connection_;  // owners: groups and their passes
  const std::uint32_t pass_;
  std::atomic<bool> has_left_{false};
  std::uint32_t num_steps_ = 0;
};

}  // namespace lockstep::detail
