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
  std::uint32_t step = 0;
  {
    const std::lock_guard lock(mutex_);
    LOCKSTEP_EXPECTS(!has_left_.load(), CollectiveAborted, "a pass over data of several workers: ",
                     connection_->control().label(connection_->control().worker()),
                     " has left it before step ", num_sent_, '.');
    step = num_sent_++;
  }
  std::vector<std::string> all =
      connection_->control().all_gather(pass_, step, kMessage + message, has_left_);
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
  if (has_left_.exchange(true)) return;
  connection_->control().cancelled();
  const std::lock_guard lock(mutex_);
  try {
    connection_->control().send(pass_, num_sent_, std::string(1, kLeft));
  } catch (const Error&) {  // the others hear of the connection's end
  }
}

}  // namespace lockstep::detail
