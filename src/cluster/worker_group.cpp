#include "cluster/worker_group.hpp"

#include <utility>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/error.hpp>

#include "cluster/worker_step_exchange.hpp"
#include "detail/expects.hpp"
#include "workers/channel_exchange.hpp"
#include "workers/shared_memory/shared_message_exchange.hpp"

namespace lockstep::detail {
namespace {

/// The addresses of the chief and the workers, in their order.
std::vector<std::string> addresses_of(const cluster::ClusterSpec& spec) {
  std::vector<std::string> addresses;
  for (const char* const job : {"chief", "worker"})
    if (spec.contains(job))
      for (const auto& [index, address] : spec.tasks(job)) addresses.push_back(address);
  return addresses;
}

}  // namespace

std::unique_ptr<WorkerGroup> WorkerGroup::connect(const cluster::Resolver& resolver,
                                                  const WorkerGroupOptions& options,
                                                  const cluster::EnvironmentVariables& variables) {
  const cluster::ClusterSpec spec = resolver.cluster_spec();
  ControlOptions control{.worker = cluster::id_in_cluster(spec, *resolver.task_type(), *resolver.task_id()),
                         .addresses = addresses_of(spec),
                         .start_limit = options.start_timeout,
                         .silence_limit = options.silence_limit};
  return std::unique_ptr<WorkerGroup>(new WorkerGroup(WorkerConnection::open(std::move(control), variables)));
}

WorkerGroup::WorkerGroup(std::shared_ptr<WorkerConnection> connection) : connection_(std::move(connection)) {
  std::vector<std::string> labels;
  for (int w = 0; w < num_processes(); ++w) labels.push_back(label(w));
  try {
    std::unique_ptr<MessageExchange> exchange;
    if (is_on_one_host())
      exchange = detail::make_shared_message_exchange(*this);
    else
      exchange = std::make_unique<ChannelExchange>(open_channel(), num_processes());
    meeting_ = std::make_unique<WorkerMeeting>(std::move(labels), process(), std::move(exchange));
  } catch (const std::exception& error) {  // the others may have succeeded
    std::string why = error.what();
    if (why.ends_with('.')) why.pop_back();  // a cause stands within a sentence
    connection_->give_up(concat("it could not join the others: ", why));
    throw;
  }
  number_ = connection_->add(*this);
  meeting_->on_break_off([this](const std::string& cause) {
    const std::string text = concat(label(process()), " could not go on: ", cause);
    connection_->announce_end(*number_, text);
    on_end(text);
  });
}

void WorkerGroup::leave() noexcept {
  if (number_) connection_->remove(*number_, meeting_->num_rounds());
  number_.reset();
}

SharedFunction<std::shared_ptr<StepExchange>()> WorkerGroup::step_opener() const {
  return [connection = connection_]() -> std::shared_ptr<StepExchange> {
    return std::make_shared<WorkerStepExchange>(connection);
  };
}

bool WorkerGroup::is_on_one_host() const noexcept {
  for (int w = 0; w < num_processes(); ++w)
    if (host(w) != host(0)) return false;
  return true;
}

void WorkerGroup::fail(const std::exception_ptr& error) noexcept {
  meeting_->fail(error, [&](std::uint64_t epoch, std::uint64_t num_rounds, const std::string& said) {
    connection_->announce_failure(*number_, epoch, num_rounds, said);
  });
}

void WorkerGroup::call_at_end(std::function<void(const std::string& cause)> abort) {
  {
    const std::lock_guard lock(mutex_);
    if (cause_.empty()) {
      aborts_.push_back(std::move(abort));
      return;
    }
  }
  abort(cause_);
}

void WorkerGroup::on_end(const std::string& cause) {
  meeting_->report_lost(cause);  // first, so that whoever calls this may rely on it
  std::vector<std::function<void(const std::string&)>> aborts;
  {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) return;
    cause_ = cause;
    aborts.swap(aborts_);
  }
  for (const auto& abort : aborts) abort(cause);
}

}  // namespace lockstep::detail
