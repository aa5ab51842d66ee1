#include "cluster/worker_connection.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <span>
#include <utility>

#include <unistd.h>

#include <lockstep/error.hpp>

#include "cluster/launcher_variables.hpp"
#include "detail/expects.hpp"
#include "detail/immortal.hpp"
#include "detail/in_quotes.hpp"
#include "workers/byte_archive.hpp"
#include "workers/control/host_identity.hpp"
#include "workers/control/socket.hpp"

namespace lockstep::detail {
namespace {

bool is_under_mpi(const cluster::EnvironmentVariables& variables) {
  return std::ranges::any_of(std::to_array({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}),
                             [&](const char* name) { return find_variable(variables, name) != nullptr; });
}

std::string engine_for(const cluster::EnvironmentVariables& variables) {
  if (const std::string* const name = find_variable(variables, "LOCKSTEP_ENGINE")) {
    LOCKSTEP_EXPECTS(*name == "mpi" || *name == "gloo" || backend::find_engine(*name) != nullptr,
                     InvalidArgument, "LOCKSTEP_ENGINE is ", in_quotes(*name),
                     ", which is no engine. Set it to mpi or gloo, or unset it.");
    return *name;
  }
  const bool has_addresses = find_variable(variables, "TF_CONFIG") != nullptr ||
                             find_variable(variables, "TORCHELASTIC_RUN_ID") != nullptr;
  return is_under_mpi(variables) && !has_addresses ? "mpi" : "gloo";
}

/// torchrun's own store may listen on MASTER_PORT.
std::string next_port(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  return concat(address.substr(0, colon + 1), std::stoi(address.substr(colon + 1)) + 1);
}

struct LeaderAddress {
  char host_identity[256] = {};
  char host[256] = {};
  int port = 0;
};

template <std::size_t kSize>
void copy_text(char (&to)[kSize], const std::string& from) {
  std::copy_n(from.begin(), std::min(from.size(), kSize - 1), to);
}

/// Worker 0's address with a free port, which the engine tells the others.
std::string leader_address(backend::Engine& engine, bool is_leader) {
  LeaderAddress leader;
  if (is_leader) {
    copy_text(leader.host_identity, host_identity());
    gethostname(leader.host, sizeof leader.host - 1);
    leader.port = control::ListeningSocket("0.0.0.0:0").port();
  }
  engine.open_channel()->broadcast(std::as_writable_bytes(std::span(&leader, 1)), 0, {});
  const bool is_here = leader.host_identity == host_identity();
  return concat(is_here ? "127.0.0.1" : leader.host, ':', leader.port);
}

/// The engine, and where it does not start the processes, their addresses.
using Key = std::vector<std::string>;

bool has_same_leader(const Key& a, const Key& b) {
  return a[0] == b[0] && a.size() > 1 && b.size() > 1 && a[1] == b[1];
}

/// The connections of this process.
struct Connections {
  std::mutex opening;  // one at a time; a process that ends does not wait for it
  std::mutex mutex;    // guards by_cluster
  std::map<Key, std::shared_ptr<WorkerConnection>> by_cluster;

  /// Takes out those that are over, and those that no strategy uses and that keep worker 0's address from
  /// another cluster.
  auto take_useless(const Key& wanted) {
    decltype(by_cluster) taken;
    for (auto it = by_cluster.begin(); it != by_cluster.end();) {
      const auto& [key, connection] = *it;
      const bool is_in_the_way = key != wanted && connection.use_count() == 1 && has_same_leader(key, wanted);
      const auto next = std::next(it);
      if (connection->is_over() || is_in_the_way) taken.insert(by_cluster.extract(it));
      it = next;
    }
    return taken;
  }
};

void leave_all() {
  Connections& all = immortal<Connections>();
  const std::lock_guard lock(all.mutex);
  for (const auto& [key, connection] : all.by_cluster) connection->control().leave();
}

}  // namespace

std::shared_ptr<WorkerConnection> WorkerConnection::open(ControlOptions options,
                                                         const cluster::EnvironmentVariables& variables) {
  Connections& all = immortal<Connections>();
  const std::lock_guard opening(all.opening);
  std::string engine_name = engine_for(variables);
  const backend::EngineKind* const kind = backend::find_engine(engine_name);
  const bool is_launched = kind != nullptr && kind->is_launched;
  Key key = {engine_name};
  if (!is_launched) key.insert(key.end(), options.addresses.begin(), options.addresses.end());
  static const int is_registered = std::atexit(leave_all);
  static_cast<void>(is_registered);
  decltype(all.by_cluster) useless;
  {
    const std::lock_guard lock(all.mutex);
    useless = all.take_useless(key);
    if (const auto found = all.by_cluster.find(key); found != all.by_cluster.end()) return found->second;
  }
  // A strategy may still hold one that is over, and keeps no address either.
  for (const auto& [cluster, connection] : useless) connection->control().leave();

  std::unique_ptr<backend::Engine> launched;
  if (is_launched) {
    launched =
        kind->start({.process = options.worker, .num_processes = static_cast<int>(options.addresses.size())});
    options.addresses.front() = leader_address(*launched, options.worker == 0);
  } else if (const std::string* const store = find_variable(variables, "TORCHELASTIC_USE_AGENT_STORE");
             store != nullptr && *store == "True" && !options.addresses.front().empty()) {
    options.addresses.front() = next_port(options.addresses.front());
  }
  const std::shared_ptr<WorkerConnection> made(
      new WorkerConnection(std::move(options), std::move(engine_name), std::move(launched)));
  const std::lock_guard lock(all.mutex);
  return all.by_cluster[key] = made;
}

WorkerConnection::WorkerConnection(ControlOptions options, std::string engine_name,
                                   std::unique_ptr<backend::Engine> launched)
    : engine_name_(std::move(engine_name)),
      own_host_(options.addresses[static_cast<std::size_t>(options.worker)]),
      silence_limit_(options.silence_limit),
      engine_(std::move(launched)),
      control_(new ControlConnection(std::move(options), *this)) {}

WorkerConnection::~WorkerConnection() { control_->leave(); }

std::unique_ptr<backend::Channel> WorkerConnection::open_channel() {
  if (engine_ == nullptr) {
    const backend::EngineKind* const kind = backend::find_engine(engine_name_);
    LOCKSTEP_EXPECTS(
        kind != nullptr, Unsupported,
        "MultiWorkerMirroredStrategy: workers on several hosts need the engine ", engine_name_,
        ", which this program does not have. Build lockstep with ",
        engine_name_ == "mpi" ? "LOCKSTEP_MPI=ON (libopenmpi-dev)" : "LOCKSTEP_GLOO=ON (libgloo-dev)",
        ", and link lockstep::", engine_name_, '.');
    engine_ = kind->start({control_->worker(), control_->num_workers(), control_.get(),
                           own_host_.substr(0, own_host_.rfind(':')),
                           2 * silence_limit_});  // the control connection is the first to know
  }
  return engine_->open_channel();
}

std::uint32_t WorkerConnection::add(WorkerReports& group) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t number = num_groups_++;
  groups_.emplace(number, &group);
  for (const Report& report : early_[number]) deliver(group, report);
  early_.erase(number);
  for (const Report& report : for_all_) deliver(group, report);
  return number;
}

void WorkerConnection::give_up(std::string_view why) noexcept {
  is_over_.store(true);
  try {
    control_->give_up(why);
  } catch (const Error&) {  // it was over before
  }
}

void WorkerConnection::remove(std::uint32_t group, std::uint64_t num_rounds) noexcept {
  {
    const std::lock_guard lock(mutex_);
    groups_.erase(group);
  }
  announce(group, {Report::Kind::left, 0, 0, num_rounds, {}});
}

void WorkerConnection::announce_failure(std::uint32_t group, std::uint64_t epoch, std::uint64_t num_rounds,
                                        std::string_view text) noexcept {
  announce(group, {Report::Kind::failure, 0, epoch, num_rounds, std::string(text)});
}

void WorkerConnection::announce_end(std::uint32_t group, std::string_view cause) noexcept {
  announce(group, {Report::Kind::end, 0, 0, 0, std::string(cause)});
}

void WorkerConnection::announce(std::uint32_t group, const Report& report) noexcept {
  try {
    ByteWriter writer;
    writer.put(group);
    writer.put(report.kind);
    writer.put(report.num_rounds);
    writer.put_bytes(std::as_bytes(std::span(report.text)));
    const auto bytes = writer.bytes();
    control_->announce_failure(report.epoch, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  } catch (const Error&) {  // the connection is over, and the others hear of that
  }
}

void WorkerConnection::on_failure(int worker, std::uint64_t epoch, std::string text) {
  ByteReader reader(std::as_bytes(std::span(text)));
  const auto group = reader.get<std::uint32_t>();
  const auto kind = reader.get<Report::Kind>();
  const auto num_rounds = reader.get<std::uint64_t>();
  const auto rest = reader.rest();
  deliver(group, {kind, worker, epoch, num_rounds,
                  std::string(reinterpret_cast<const char*>(rest.data()), rest.size())});
}

void WorkerConnection::on_lost(int worker, std::string cause) {
  is_over_.store(true);
  deliver_to_all({Report::Kind::end, worker, 0, 0, std::move(cause)});
}

void WorkerConnection::on_left(int worker) { deliver_to_all({Report::Kind::left, worker, 0, 0, {}}); }

void WorkerConnection::deliver(std::uint32_t group, const Report& report) {
  const std::lock_guard lock(mutex_);
  if (group >= num_groups_) {
    early_[group].push_back(report);
  } else if (const auto found = groups_.find(group); found != groups_.end()) {
    deliver(*found->second, report);
  }
}

void WorkerConnection::deliver_to_all(const Report& report) {
  const std::lock_guard lock(mutex_);
  for_all_.push_back(report);
  for (const auto& [number, group] : groups_) deliver(*group, report);
}

void WorkerConnection::deliver(WorkerReports& group, const Report& report) {
  switch (report.kind) {
    case Report::Kind::failure:
      return group.on_failure(report.worker, report.epoch, report.num_rounds, report.text);
    case Report::Kind::end: return group.on_end(report.text);
    case Report::Kind::left: return group.on_left(report.worker, report.num_rounds);
  }
}

}  // namespace lockstep::detail
