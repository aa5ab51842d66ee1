#include "cluster/worker_group.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/error.hpp>

#include "cluster/launcher_variables.hpp"
#include "cluster/resized_cluster.hpp"
#include "cluster/worker_step_exchange.hpp"
#include "detail/expects.hpp"
#include "workers/channel_exchange.hpp"
#include "workers/control/joining/waiting_list.hpp"
#include "workers/shared_memory/shared_message_exchange.hpp"

namespace lockstep::detail {
namespace {

// What begins a text of all_gather: one, or that the worker has failed, or has left.
constexpr char kText = 't';
constexpr char kFailure = 'f';
constexpr char kLeft = 'l';

constexpr std::chrono::milliseconds kLongestSilence = std::chrono::hours(24 * 365);  // a clock can count on
constexpr std::chrono::seconds kEchoLimit{1};  // for what is announced to come back from worker 0

std::string given_or(const std::string& given, const cluster::EnvironmentVariables& variables,
                     std::string_view name) {
  if (!given.empty()) return given;
  const std::string* const value = find_variable(variables, name);
  return value == nullptr ? std::string() : *value;
}

}  // namespace

std::shared_ptr<WorkerGroup> WorkerGroup::connect(const cluster::Resolver& resolver,
                                                  const WorkerGroupOptions& options,
                                                  const cluster::EnvironmentVariables& variables) {
  const cluster::ClusterSpec spec = resolver.cluster_spec();
  ControlOptions control{.worker = cluster::id_in_cluster(spec, *resolver.task_type(), *resolver.task_id()),
                         .addresses = addresses_of_workers(spec),
                         .listen_host = given_or(options.listen_host, variables, "LOCKSTEP_LISTEN"),
                         .token = given_or(options.token, variables, "LOCKSTEP_TOKEN"),
                         .start_limit = options.start_timeout,
                         .silence_limit = std::min(options.silence_limit, kLongestSilence),
                         .goes_on_without = options.goes_on_without,
                         .listens_alone = options.listens_alone};
  const WorkerConnection* keep = nullptr;
  if (WorkerGroup* const former = options.former) {
    keep = former->connection_.get();
    former->with_waiting_list(
        [&](control::WaitingList& list) { control.listening_socket = list.lent_socket(); });
    control.is_outdated = [former, num_lost = options.num_lost] {
      bool has_lost_invited = false;
      former->with_waiting_list(
          [&](control::WaitingList& list) { has_lost_invited = list.has_lost_invited(); });
      return has_lost_invited || former->lost_workers().size() > num_lost;
    };
  }
  if (options.invitation != nullptr)
    control.is_outdated = [invitation = options.invitation] { return invitation->is_withdrawn(); };
  std::shared_ptr<WorkerGroup> group(
      new WorkerGroup(options.shares_connection ? WorkerConnection::open(std::move(control), variables, keep)
                                                : WorkerConnection::open_own(std::move(control), variables)));
  if (options.former != nullptr) options.former->successor_ = group;
  if (options.goes_on_without) group->all_gather("that all have come", {});
  group->meeting_ =
      group->make_together("the place where workers meet", [&] { return group->make_meeting(); });
  group->connection_->add(group->number_, *group);
  return group;
}

WorkerGroup::WorkerGroup(std::shared_ptr<WorkerConnection> connection) : connection_(std::move(connection)) {
  try {
    connection_->begin_group(number_);
    is_silent_.resize(static_cast<std::size_t>(num_processes()));
  } catch (const std::exception& error) {  // the others wait for this worker's part
    end_stream(error.what());
    throw;
  }
}

std::unique_ptr<WorkerMeeting> WorkerGroup::make_meeting() {
  std::vector<std::string> labels;
  for (int w = 0; w < num_processes(); ++w) labels.push_back(label(w));
  std::unique_ptr<MessageExchange> exchange;
  if (is_on_one_host())
    exchange = detail::make_shared_message_exchange(*this);
  else
    exchange = std::make_unique<ChannelExchange>(open_channel(), num_processes());
  auto meeting = std::make_unique<WorkerMeeting>(std::move(labels), process(), std::move(exchange));
  meeting->expect_reports_within(connection_->silence_limit());
  meeting->on_break_off([this](const std::string& cause) {
    const std::string text = concat(label(process()), " could not go on: ", cause);
    connection_->announce_end(number_, text);
    // Others may break off at the same time: all take the cause that worker 0 hears first.
    if (!meeting_->await_loss(kEchoLimit)) on_end(std::make_shared<backend::Loss>(text));
  });
  return meeting;
}

void WorkerGroup::leave() noexcept {
  if (has_left_.exchange(true)) return;
  end_stream({});
  connection_->remove(number_, meeting_ == nullptr ? 0 : meeting_->num_rounds());
  std::thread aborting;
  {
    const std::lock_guard lock(mutex_);
    aborting.swap(aborting_);
  }
  if (aborting.joinable()) aborting.join();
}

std::vector<std::string> WorkerGroup::all_gather(std::string_view what, std::string own) {
  std::vector<std::string> all = connection_->all_gather(WorkerConnection::stream_of_group(number_),
                                                         num_steps_++, what, kText + own, has_ended_stream_);
  for (int w = 0; w < num_processes(); ++w) {
    std::string& text = all[static_cast<std::size_t>(w)];
    const char kind = text.front();
    text.erase(0, 1);
    LOCKSTEP_EXPECTS(kind != kFailure, CollectiveAborted, what, ": ", label(w), " has failed: ", text);
    LOCKSTEP_EXPECTS(kind == kText, CollectiveAborted, what, ": ", label(w),
                     " has left: its strategy was destroyed. Destroy the strategies of all workers after the "
                     "same calls.");
  }
  return all;
}

void WorkerGroup::end_stream(const std::string& failure) noexcept {
  if (!has_ended_stream_.exchange(true))
    connection_->control().end_stream(WorkerConnection::stream_of_group(number_),
                                      failure.empty() ? std::string(1, kLeft) : kFailure + failure);
}

// The engine's own calls wait for all workers, in which a worker that has failed before would not be told.
std::unique_ptr<backend::Channel> WorkerGroup::open_channel() {
  connection_->start_engine();
  all_gather("that the workers open a channel", {});
  return connection_->open_channel();
}

SharedFunction<std::shared_ptr<StepExchange>()> WorkerGroup::step_opener() const {
  return [connection = connection_]() -> std::shared_ptr<StepExchange> {
    return std::make_shared<WorkerStepExchange>(connection);
  };
}

void WorkerGroup::with_waiting_list(FunctionRef<void(control::WaitingList& list)> f, bool changes) {
  connection_->control().with_waiting_list(f, changes);
}

int WorkerGroup::num_waiting() {
  int number = 0;
  with_waiting_list([&](control::WaitingList& list) { number = list.num_waiting(); });
  return number;
}

std::vector<std::string> WorkerGroup::invite() {
  std::vector<std::string> invited;
  with_waiting_list([&](control::WaitingList& list) { invited = list.invite(); }, true);
  return invited;
}

void WorkerGroup::end_invitation(bool has_grown) {
  if (has_grown) WorkerConnection::retire(*connection_);
  with_waiting_list([&](control::WaitingList& list) { list.end_invitation(has_grown); }, true);
}

control::Invitation WorkerGroup::wait_to_join(const std::string& chief, const std::string& address,
                                              const WorkerGroupOptions& options,
                                              const cluster::EnvironmentVariables& variables) {
  LOCKSTEP_EXPECTS(!WorkerConnection::uses_launched_engine(variables), Unsupported,
                   "Joining the workers: MPI has started this process, and connects it with its own alone. "
                   "Start it without mpirun and srun, or set LOCKSTEP_ENGINE to gloo.");
  const ControlOptions control{.addresses = {address},
                               .start_limit = options.start_timeout,
                               .silence_limit = std::min(options.silence_limit, kLongestSilence)};
  control::check(control);
  return control::wait_to_join(chief, control::hello_of(control),
                               given_or(options.token, variables, "LOCKSTEP_TOKEN"), options.start_timeout,
                               control.log_interval);
}

bool WorkerGroup::is_launched() const {
  const backend::EngineKind* const kind = backend::find_engine(connection_->engine_name());
  return kind != nullptr && kind->is_launched;
}

bool WorkerGroup::is_on_one_host() const noexcept {
  for (int w = 0; w < num_processes(); ++w)
    if (host(w) != host(0)) return false;
  return true;
}

void WorkerGroup::fail(const std::exception_ptr& error) noexcept {
  meeting_->fail(error, [&](std::uint64_t epoch, std::uint64_t num_rounds, const std::string& said) {
    connection_->announce_failure(number_, epoch, num_rounds, said);
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

void WorkerGroup::answer_with(std::function<std::string()> tell) {
  const std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
}

std::vector<std::optional<std::string>> WorkerGroup::ask() {
  constexpr std::chrono::milliseconds kPatience{500};
  std::unique_lock lock(mutex_);
  const std::uint64_t newest = question_;
  lock.unlock();
  const std::lock_guard turn(asking_);
  lock.lock();
  if (question_ > newest + 1) return answers_;  // of a thread that asked after this one had come
  const std::uint64_t question = ++question_;
  answers_.assign(static_cast<std::size_t>(num_processes()), std::nullopt);
  if (!cause_.empty() || num_processes() == 1) return answers_;
  lock.unlock();
  connection_->announce_ask(number_, question);
  lock.lock();
  const auto is_expected = [&](int w) {
    const auto index = static_cast<std::size_t>(w);
    return w != process() && !answers_[index] && !is_silent_[index];
  };
  answered_.wait_for(lock, kPatience, [&] {
    int w = 0;
    while (w < num_processes() && !is_expected(w)) ++w;
    return !cause_.empty() || w == num_processes();
  });
  for (int w = 0; w < num_processes(); ++w)
    if (is_expected(w)) is_silent_[static_cast<std::size_t>(w)] = true;
  return answers_;
}

void WorkerGroup::on_ask(int worker, std::uint64_t question) {
  std::string text;
  try {
    const std::lock_guard lock(mutex_);
    if (!tell_) return;
    text = tell_();
  } catch (const std::exception&) {  // no memory: this worker is unknown to the one that asks
    return;
  }
  connection_->announce_answer(number_, worker, question, std::move(text));
}

void WorkerGroup::on_answer(int worker, int asker, std::uint64_t question, std::string text) {
  {
    const std::lock_guard lock(mutex_);
    if (asker != process()) return;
    is_silent_[static_cast<std::size_t>(worker)] = false;
    if (question != question_) return;
    answers_[static_cast<std::size_t>(worker)] = std::move(text);
  }
  answered_.notify_all();
}

// The others may wait for this worker's part in a call, which never comes.
bool WorkerGroup::on_exit() noexcept {
  if (!meeting_->is_in_call()) {
    connection_->announce_left(number_, meeting_->num_rounds());
    return false;
  }
  connection_->announce_end(number_, concat(label(process()), " has ended in a call of the strategy"));
  return true;
}

void WorkerGroup::on_end(const std::shared_ptr<backend::Loss>& loss) {
  meeting_->report_lost(loss);  // first, so that whoever calls this may rely on it
  const std::lock_guard lock(mutex_);
  if (!cause_.empty()) return;
  cause_ = loss->cause();
  answered_.notify_all();  // no answer comes any more
  if (aborts_.empty()) return;
  const auto abort_all = [aborts = std::move(aborts_), loss] {
    for (const auto& abort : aborts) abort(loss->cause());
  };
  try {
    aborting_ = std::thread(abort_all);
  } catch (const std::exception&) {  // late heartbeats are better than waits without an end
    abort_all();
  }
}

}  // namespace lockstep::detail
