#include "cluster/worker_step_exchange.hpp"

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {
namespace {

// What begins a text: a message, or that the worker sends none any more.
constexpr char kMessage = 'm';
constexpr char kLeft = 'l';

}  // namespace

WorkerStepExchange::WorkerStepExchange(std::shared_ptr<WorkerConnection> connection)
    : connection_(std::move(connection)), pass_(connection_->next_pass()) {}

std::vector<std::string> WorkerStepExchange::all_gather(std::string message) {
  const std::uint32_t step = num_steps_++;
  LOCKSTEP_EXPECTS(!has_left_.load(), CollectiveAborted, "a pass over data of several workers: ",
                   connection_->control().label(connection_->control().worker()), " has left it before step ",
                   step, '.');
  std::vector<std::string> all = connection_->all_gather(
      pass_, step, concat("step ", step, " of the workers' pass ", pass_), kMessage + message, has_left_);
  for (std::size_t worker = 0; worker < all.size(); ++worker) {
    LOCKSTEP_EXPECTS(
        all[worker].front() == kMessage, CollectiveAborted,
        "a pass over data of several workers: ", connection_->control().label(static_cast<int>(worker)),
        " has left it before step ", step, ". Take the same steps on every worker.");
    all[worker].erase(0, 1);
  }
  return all;
}

void WorkerStepExchange::leave() noexcept {
  if (!has_left_.exchange(true)) connection_->control().end_stream(pass_, std::string(1, kLeft));
}

}  // namespace lockstep::detail
