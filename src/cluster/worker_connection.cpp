#include "cluster/worker_connection.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

#include <lockstep/error.hpp>

#include "cluster/launcher_variables.hpp"
#include "cluster/worker_connections.hpp"
#include "detail/exception_text.hpp"
#include "detail/expects.hpp"
#include "detail/warn.hpp"
#include "workers/byte_archive.hpp"
#include "workers/control/host_identity.hpp"
#include "workers/control/proof.hpp"
#include "workers/control/socket.hpp"

namespace lockstep::detail {
namespace {

/// Report::Kind's values.
constexpr std::string_view kKinds = "felqa";
/// Of groups that this process has not made yet: workers make them in one order.
constexpr std::uint32_t kMostGroupsAhead = 1024;

/// torchrun's own store may listen on MASTER_PORT.
std::string next_port(const std::string& address) {
  const int port = std::stoi(control::parse_address(address).port);
  return concat(address.substr(0, address.rfind(':') + 1), port + 1);
}

struct Place {
  char host_identity[256] = {};
};

struct LeaderAddress {
  char host[256] = {};
  int port = 0;
  char token[64] = {};
  char failure[512] = {};  // why there is none
};

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
  std::copy_n(from.begin(), std::min(from.size(), kSize - 1), to);
}

LeaderAddress choose_leader_address(const ControlOptions& options, bool is_on_one_host) {
  LeaderAddress leader;
  const std::string& listens = options.listen_host;
  if (!listens.empty() && listens != "0.0.0.0" && listens != "::")
    copy_text(leader.host, listens.find(':') == listens.npos ? listens : concat('[', listens, ']'));
  else if (is_on_one_host)
    copy_text(leader.host, "127.0.0.1");
  else
    LOCKSTEP_EXPECTS(::gethostname(leader.host, sizeof leader.host - 1) == 0, Error,
                     "Worker 0 cannot find out its host's name: ", std::generic_category().message(errno),
                     ". Set LOCKSTEP_LISTEN to an address of it.");
  leader.port = control::ListeningSocket(concat(leader.host, ":0")).port();
  if (options.token.empty()) copy_text(leader.token, control::random_token());
  return leader;
}

/// Worker 0's address with a free port, and where the workers were given no token, one that it draws: the
/// engine tells the others, or why there is none.
void take_leader_address(backend::Engine& engine, ControlOptions& options) {
  const std::unique_ptr<backend::Channel> channel = engine.open_channel();
  backend::Deadline deadline;
  if (options.start_limit.count() > 0) deadline = std::chrono::steady_clock::now() + options.start_limit;
  Place own;
  copy_text(own.host_identity, host_identity());
  std::vector<Place> all(options.addresses.size());
  channel->all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)), deadline);
  const bool is_on_one_host = std::ranges::all_of(
      all, [&](const Place& other) { return std::string_view(other.host_identity) == own.host_identity; });
  LeaderAddress chosen;
  std::exception_ptr error;
  try {
    if (options.worker == 0) chosen = choose_leader_address(options, is_on_one_host);
  } catch (...) {
    error = std::current_exception();
    copy_text(chosen.failure, exception_text(error));
  }
  // Not a broadcast, which could not be taken back where a worker does not come.
  std::vector<LeaderAddress> of_all(options.addresses.size());
  channel->all_gather(std::as_bytes(std::span(&chosen, 1)), std::as_writable_bytes(std::span(of_all)),
                      deadline);
  const LeaderAddress& leader = of_all.front();
  if (error) std::rethrow_exception(error);
  LOCKSTEP_EXPECTS(leader.failure[0] == '\0', CollectiveAborted,
                   "The start of the workers: worker 0 has failed: ", leader.failure);
  options.addresses.front() = concat(leader.host, ':', leader.port);
  if (options.token.empty()) options.token = leader.token;
}

bool is_launched(const std::string& engine) {
  const backend::EngineKind* const kind = backend::find_engine(engine);
  return kind != nullptr && kind->is_launched;
}

bool has_same_leader(const WorkerConnections::Key& a, const WorkerConnections::Key& b) {
  return a.size() > 1 && b.size() > 1 && a[1] == b[1];
}

/// Takes out those that are over, and those that no strategy uses and that keep worker 0's address from
/// another cluster.
WorkerConnections::ByCluster take_useless(WorkerConnections::ByCluster& by_cluster,
                                          const WorkerConnections::Key& wanted) {
  WorkerConnections::ByCluster taken;
  for (auto it = by_cluster.begin(); it != by_cluster.end();) {
    const auto& [key, connection] = *it;
    const bool is_in_the_way = key != wanted && connection.use_count() == 1 && has_same_leader(key, wanted);
    const auto next = std::next(it);
    if (connection->is_over() || is_in_the_way) taken.insert(by_cluster.extract(it));
    it = next;
  }
  return taken;
}

void leave_all() {
  WorkerConnections& all = WorkerConnections::of_process();
  WorkerConnections::ByCluster left;
  {
    const std::lock_guard lock(all.mutex);
    left = all.by_cluster;
  }
  for (const auto& [key, connection] : left) connection->exit();
}

}  // namespace

std::shared_ptr<WorkerConnection> WorkerConnection::open(ControlOptions options,
                                                         const cluster::EnvironmentVariables& variables,
                                                         const WorkerConnection* keep) {
  WorkerConnections& all = WorkerConnections::of_process();
  const std::lock_guard opening(all.opening);
  std::string engine_name = engine_for(variables, !options.addresses.front().empty());
  WorkerConnections::Key key = {engine_name};
  if (!is_launched(engine_name)) key.insert(key.end(), options.addresses.begin(), options.addresses.end());
  WorkerConnections::ByCluster useless;
  {
    const std::lock_guard lock(all.mutex);
    useless = take_useless(all.by_cluster, key);
    if (const auto found = all.by_cluster.find(key); found != all.by_cluster.end()) return found->second;
  }
  // A strategy may still hold one that is over, and keeps no address either.
  for (const auto& [cluster, connection] : useless)
    if (connection.get() != keep) connection->control().leave();
  const std::shared_ptr<WorkerConnection> made =
      connect(std::move(options), variables, std::move(engine_name));
  // After that of the engine, so that it is called before: MPI's end waits for the others, who hear of this.
  static const int is_registered = std::atexit(leave_all);
  static_cast<void>(is_registered);
  const std::lock_guard lock(all.mutex);
  return all.by_cluster[key] = made;
}

bool WorkerConnection::uses_launched_engine(const cluster::EnvironmentVariables& variables) {
  return is_launched(engine_for(variables, true));
}

void WorkerConnection::retire(const WorkerConnection& connection) noexcept {
  WorkerConnections& all = WorkerConnections::of_process();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_cluster, [&](const auto& one) { return one.second.get() == &connection; });
}

void WorkerConnection::forget_unused(const std::string& leader) {
  WorkerConnections& all = WorkerConnections::of_process();
  const std::lock_guard opening(all.opening);
  WorkerConnections::ByCluster unused;  // ends after the lock
  const std::lock_guard lock(all.mutex);
  unused = take_useless(all.by_cluster, {"", leader});
}

std::shared_ptr<WorkerConnection> WorkerConnection::open_own(ControlOptions options,
                                                             const cluster::EnvironmentVariables& variables) {
  const bool has_address = !options.addresses.front().empty();
  return connect(std::move(options), variables, engine_for(variables, has_address));
}

std::shared_ptr<WorkerConnection> WorkerConnection::connect(ControlOptions options,
                                                            const cluster::EnvironmentVariables& variables,
                                                            std::string engine_name) {
  std::unique_ptr<backend::Engine> launched;
  if (is_launched(engine_name)) {
    launched = backend::find_engine(engine_name)
                   ->start({.process = options.worker,
                            .num_processes = static_cast<int>(options.addresses.size()),
                            .start_limit = options.start_limit});
    take_leader_address(*launched, options);
  } else if (const std::string* const store = find_variable(variables, "TORCHELASTIC_USE_AGENT_STORE");
             store != nullptr && *store == "True" &&
             is_master_address(options.addresses.front(), variables)) {
    options.addresses.front() = next_port(options.addresses.front());
  }
  return std::shared_ptr<WorkerConnection>(
      new WorkerConnection(std::move(options), std::move(engine_name), std::move(launched)));
}

WorkerConnection::WorkerConnection(ControlOptions options, std::string engine_name,
                                   std::unique_ptr<backend::Engine> launched)
    : engine_name_(std::move(engine_name)),
      own_host_(options.addresses[static_cast<std::size_t>(options.worker)]),
      silence_limit_(options.silence_limit),
      engine_(std::move(launched)),
      control_(new ControlConnection(std::move(options), *this)) {}

WorkerConnection::~WorkerConnection() { control_->leave(); }

void WorkerConnection::start_engine() {
  const std::lock_guard lock(starting_);
  if (engine_ != nullptr) return;
  LOCKSTEP_EXPECTS(backend::find_engine(engine_name_) != nullptr, Unsupported,
                   "MultiWorkerMirroredStrategy: workers on several hosts need the engine ", engine_name_,
                   how_to_build(engine_name_), '.');
  engine_ =
      backend::find_engine(engine_name_)
          ->start({.process = control_->worker(),
                   .num_processes = control_->num_workers(),
                   .store = control_.get(),
                   .host = own_host_.substr(0, own_host_.rfind(':')),
                   .silence_limit = 2 * silence_limit_});  // the control connection is the first to know
}

std::vector<std::string> WorkerConnection::all_gather(std::uint32_t stream, std::uint32_t step,
                                                      std::string_view what, std::string own,
                                                      const std::atomic<bool>& is_cancelled) {
  try {
    return control_->all_gather(stream, step, what, std::move(own), is_cancelled);
  } catch (const PeerLost&) {
    tell_losses();
    throw;
  }
}

// The call may have failed before the connection's thread reports the loss.
void WorkerConnection::tell_losses() {
  const std::lock_guard lock(mutex_);
  is_told_ = true;
  for (const Report& report : for_all_)
    if (report.loss) report.loss->tell();
}

void WorkerConnection::begin_group(std::uint32_t& number) {
  const std::lock_guard lock(mutex_);
  number = num_groups_++;
  groups_.emplace(number, nullptr);
}

void WorkerConnection::add(std::uint32_t number, WorkerReports& group) {
  const std::lock_guard lock(mutex_);
  groups_[number] = &group;
  for (const Report& report : early_[number]) deliver(group, report);
  early_.erase(number);
  for (const Report& report : for_all_) deliver(group, report);
}

void WorkerConnection::remove(std::uint32_t number, std::uint64_t num_rounds) noexcept {
  {
    const std::lock_guard lock(mutex_);
    groups_.erase(number);
    early_.erase(number);
  }
  announce_left(number, num_rounds);
}

void WorkerConnection::exit() noexcept {
  bool is_in_call = false;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, group] : groups_)
      if (group != nullptr && group->on_exit()) is_in_call = true;
  }
  // A loss would leave MPI without the end in which the processes wait for each other.
  control_->leave(is_in_call && !is_launched(engine_name_) ? "it has ended in a call of the strategy" : "");
}

void WorkerConnection::announce_failure(std::uint32_t group, std::uint64_t epoch, std::uint64_t num_rounds,
                                        std::string_view text) noexcept {
  announce(group, {Report::Kind::failure, 0, epoch, num_rounds, std::string(text)});
}

void WorkerConnection::announce_end(std::uint32_t group, std::string_view cause) noexcept {
  announce(group, {Report::Kind::end, 0, 0, 0, std::string(cause)});
}

void WorkerConnection::announce_left(std::uint32_t group, std::uint64_t num_rounds) noexcept {
  announce(group, {Report::Kind::left, 0, 0, num_rounds, {}});
}

void WorkerConnection::announce_ask(std::uint32_t group, std::uint64_t question) noexcept {
  announce(group, {Report::Kind::ask, 0, question, 0, {}});
}

void WorkerConnection::announce_answer(std::uint32_t group, int asker, std::uint64_t question,
                                       std::string text) noexcept {
  announce(group, {Report::Kind::answer, 0, question, static_cast<std::uint64_t>(asker), std::move(text)});
}

void WorkerConnection::announce(std::uint32_t group, const Report& report) noexcept {
  try {
    ByteWriter writer;
    writer.put(group);
    writer.put(report.kind);
    writer.put(report.num_rounds);
    writer.put_bytes(std::as_bytes(std::span(report.text)));
    const auto bytes = writer.bytes();
    control_->announce_failure(report.epoch, {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                               report.kind == Report::Kind::end);
  } catch (const Error&) {  // the connection is over, and the others hear of that
  } catch (...) {           // there is no memory to tell them
    control_->break_off(std::current_exception());
  }
}

void WorkerConnection::on_failure(int worker, std::uint64_t epoch, std::string text) try {
  ByteReader reader(std::as_bytes(std::span(text)));
  const auto group = reader.get<std::uint32_t>();
  const auto kind = reader.get<Report::Kind>();
  const auto num_rounds = reader.get<std::uint64_t>();
  const auto rest = reader.rest();
  LOCKSTEP_EXPECTS(kKinds.find(static_cast<char>(kind)) != kKinds.npos, Error, "it has the kind ",
                   int{static_cast<char>(kind)}, ". Run the same build on all workers.");
  Report report{kind, worker, epoch, num_rounds,
                std::string(reinterpret_cast<const char*>(rest.data()), rest.size())};
  if (kind == Report::Kind::end) report.loss = std::make_shared<backend::Loss>(report.text);
  deliver(group, report);
} catch (const Error& error) {  // nothing that another worker sends ends this process
  warn(concat("A report of worker ", worker, " is not understood: ", error.what()));
}

void WorkerConnection::on_lost(int worker, std::string cause) {
  is_over_.store(true);
  {
    const std::lock_guard lock(starting_);
    if (engine_ != nullptr) engine_->abandon();
  }
  auto loss = std::make_shared<backend::Loss>(std::move(cause));
  deliver_to_all({Report::Kind::end, worker, 0, 0, {}, std::move(loss)});
  const std::lock_guard lock(mutex_);
  lost_.push_back(worker);
  lost_changed_.notify_all();
}

std::vector<int> WorkerConnection::lost_workers(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  lost_changed_.wait_for(lock, limit, [&] { return !lost_.empty(); });
  return lost_;
}

void WorkerConnection::on_left(int worker) {
  is_over_.store(true);  // no new strategy will find it here
  deliver_to_all({Report::Kind::left, worker, 0, 0, {}});
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) lost_.push_back(worker);  // it does not go on with those that are left
}

void WorkerConnection::deliver(std::uint32_t group, const Report& report) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found != groups_.end() && found->second != nullptr)
    deliver(*found->second, report);
  else if (found != groups_.end() || (group >= num_groups_ && group - num_groups_ < kMostGroupsAhead))
    early_[group].push_back(report);
}

void WorkerConnection::deliver_to_all(const Report& report) {
  const std::lock_guard lock(mutex_);
  for_all_.push_back(report);
  if (report.loss && is_told_) report.loss->tell();
  for (const auto& [number, group] : groups_)
    if (group != nullptr) deliver(*group, report);
}

void WorkerConnection::deliver(WorkerReports& group, const Report& report) {
  switch (report.kind) {
    case Report::Kind::failure:
      return group.on_failure(report.worker, report.epoch, report.num_rounds, report.text);
    case Report::Kind::end: return group.on_end(report.loss);
    case Report::Kind::left: return group.on_left(report.worker, report.num_rounds);
    case Report::Kind::ask: return group.on_ask(report.worker, report.epoch);
    case Report::Kind::answer:
      return group.on_answer(report.worker, static_cast<int>(report.num_rounds), report.epoch, report.text);
  }
}

}  // namespace lockstep::detail
