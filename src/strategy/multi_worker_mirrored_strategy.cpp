#include <algorithm>
#include <optional>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/strategy/detail/cross_replica.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "cluster/evaluator.hpp"
#include "cluster/resized_cluster.hpp"
#include "cluster/worker_group.hpp"
#include "detail/expects.hpp"
#include "detail/warn.hpp"
#include "strategy/runtime/default_devices.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/strategy_access.hpp"
#include "strategy/strategy_config.hpp"
#include "workers/binding.hpp"
#include "workers/byte_archive.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kName = "MultiWorkerMirroredStrategy";
constexpr std::string_view kShrink = "MultiWorkerMirroredStrategy::shrink";
constexpr std::string_view kNumWaiting = "MultiWorkerMirroredStrategy::num_waiting";
constexpr std::string_view kGrow = "MultiWorkerMirroredStrategy::grow";
constexpr std::string_view kGrowInVain = "MultiWorkerMirroredStrategy::grow, in which nobody joins";
constexpr std::string_view kJoin = "MultiWorkerMirroredStrategy::join";
constexpr std::chrono::minutes kResizeTimeout{1};

/// The number of workers that the process works with.
int num_workers(const cluster::Resolver& resolver) {
  const cluster::ClusterSpec spec = resolver.cluster_spec();
  if (spec.empty()) return 1;
  LOCKSTEP_EXPECTS(resolver.task_type() && resolver.task_id(), InvalidArgument, kName,
                   ": the resolver has a cluster, but not which of its tasks this process is. Set its "
                   "task_type and task_id; in TF_CONFIG these are in \"task\".");
  const std::string& type = *resolver.task_type();
  cluster::validate_cluster_spec(spec, type, *resolver.task_id());
  LOCKSTEP_EXPECTS(type != "ps", InvalidArgument, kName,
                   ": this process is a parameter server, which has no replicas. Make the strategy in the "
                   "chief, the workers and the evaluator.");
  return type == detail::kEvaluator ? 1 : cluster::worker_count(spec, type, *resolver.task_id());
}

/// The process's part of its host's GPUs, else the host replicas.
std::vector<Device> own_devices(const cluster::Resolver& resolver, std::vector<Device> devices) {
  if (!devices.empty()) return devices;
  devices = DeviceManager::instance().devices(DeviceKind::gpu);
  const auto rank = static_cast<std::size_t>(resolver.local_rank().value_or(0));
  const auto size = static_cast<std::size_t>(resolver.local_size().value_or(1));
  if (devices.size() >= size && size > 1)
    devices = {devices.begin() + static_cast<std::ptrdiff_t>(rank * devices.size() / size),
               devices.begin() + static_cast<std::ptrdiff_t>((rank + 1) * devices.size() / size)};
  return detail::or_default_devices(std::move(devices));
}

void check(const WorkerOptions& options) {
  LOCKSTEP_EXPECTS(options.min_workers >= 1, InvalidArgument, kName, ": min_workers is ", options.min_workers,
                   ". Give at least 1.");
}

detail::StrategyConfig configure(std::shared_ptr<cluster::Resolver> resolver,
                                 const CommunicationOptions& options, const WorkerOptions& worker_options,
                                 const detail::Former& former) {
  LOCKSTEP_EXPECTS(resolver != nullptr, InvalidArgument, kName,
                   ": no resolver. Pass cluster::from_environment(), or a resolver of the cluster.");
  check(worker_options);
  const int workers = num_workers(*resolver);
  std::vector<Device> devices = own_devices(*resolver, worker_options.devices);
  detail::StrategyConfig config{.kind = {.name = kName},
                                .logical_devices = {std::move(devices)},
                                .options = options,
                                .cluster_resolver = std::move(resolver)};
  if (workers == 1) return config;
  const auto num_replicas = static_cast<int>(config.logical_devices.front().size());
  if (const std::string warning = detail::binding_warning(num_replicas); !warning.empty())
    detail::warn(detail::concat(kName, ": ", warning));
  config.workers = detail::WorkerGroup::connect(*config.cluster_resolver,
                                                {.start_timeout = worker_options.start_timeout,
                                                 .silence_limit = worker_options.heartbeat_timeout,
                                                 .token = worker_options.token,
                                                 .listen_host = worker_options.listen_host,
                                                 .former = former.group,
                                                 .num_lost = former.num_lost,
                                                 .goes_on_without = former.num_lost > 0,
                                                 .invitation = former.invitation},
                                                cluster::environment_variables());
  const std::vector<std::string> numbers =
      config.workers->all_gather("the number of replicas", std::to_string(num_replicas));
  const std::string& own = numbers[static_cast<std::size_t>(config.workers->process())];
  for (std::size_t w = 1; w < numbers.size(); ++w) {
    // A process that joins with as many devices as the chief waits again; one with others gets the error.
    LOCKSTEP_EXPECTS(numbers[w] == numbers[0] || former.invitation == nullptr || own != numbers[0],
                     CollectiveAborted, kName, ": ", config.workers->label(static_cast<int>(w)), " has ",
                     numbers[w], " devices, the others have ", numbers[0], '.');
    LOCKSTEP_EXPECTS(numbers[w] == numbers[0], InvalidArgument, kName, ": ",
                     config.workers->label(static_cast<int>(w)), " has ", numbers[w], " devices, ",
                     config.workers->label(0), " has ", numbers[0], ". Give every worker as many.");
  }
  return config;
}

/// Worker 0's invitation to all who wait. It ends with this.
class Invitation {
 public:
  explicit Invitation(detail::WorkerGroup& group) : group_(group), joiners_(group.invite()) {}
  ~Invitation() { group_.end_invitation(has_grown_); }
  Invitation(const Invitation&) = delete;
  Invitation& operator=(const Invitation&) = delete;

  std::string text() const {
    detail::ByteWriter writer;
    for (const std::string& joiner : joiners_) writer.put_text(joiner);
    return {reinterpret_cast<const char*>(writer.bytes().data()), writer.bytes().size()};
  }
  static std::vector<std::string> joiners(const std::string& text) {
    std::vector<std::string> joiners;
    for (detail::ByteReader reader(std::as_bytes(std::span(text))); !reader.rest().empty();)
      joiners.emplace_back(reader.get_text());
    return joiners;
  }
  /// Who was invited is sent away.
  void withdraw() { group_.end_invitation(false); }
  void succeed() noexcept { has_grown_ = true; }

 private:
  detail::WorkerGroup& group_;
  const std::vector<std::string> joiners_;
  bool has_grown_ = false;
};

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(std::shared_ptr<cluster::Resolver> resolver,
                                                         const CommunicationOptions& options,
                                                         const WorkerOptions& worker_options)
    : MultiWorkerMirroredStrategy(std::move(resolver), options, worker_options, detail::Former{}) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(std::shared_ptr<cluster::Resolver> resolver,
                                                         const CommunicationOptions& options,
                                                         const WorkerOptions& worker_options,
                                                         const detail::Former& former)
    : Strategy(configure(std::move(resolver), options, worker_options, former)),
      worker_options_(worker_options) {}

std::unique_ptr<MultiWorkerMirroredStrategy> MultiWorkerMirroredStrategy::shrink() {
  const detail::StrategyState& state = detail::StrategyState::of(*this);
  detail::WorkerGroup* const group = state.config().workers.get();
  LOCKSTEP_EXPECTS(group != nullptr && group->loss() != nullptr, ContextError, kShrink,
                   ": no worker is lost. Call it after a call of the strategy has thrown PeerLost.");
  LOCKSTEP_EXPECTS(!group->is_launched(), Unsupported, kShrink,
                   ": MPI has started the workers, and does not go on without one. Start them with torchrun "
                   "or TF_CONFIG, or start all anew.");
  std::shared_ptr<cluster::Resolver> resolver = state.config().cluster_resolver;
  // The group in which losses were heard last: this strategy's, then one of those left that has lost more.
  std::shared_ptr<detail::WorkerGroup> former = state.config().workers;
  std::vector<int> leaders;  // of those left, one after the other: they have not come, or were lost at once
  for (;;) {
    std::vector<int> lost = former->lost_workers(former->report_limit());
    LOCKSTEP_EXPECTS(!lost.empty(), ContextError, kShrink, ": the strategy has ended (",
                     former->loss()->cause(),
                     "), but no worker is lost. Make a new strategy on all workers.");
    const std::size_t num_lost = lost.size();
    lost.insert(lost.end(), leaders.begin(), leaders.end());
    auto cluster = detail::shrunk_cluster(*resolver, lost);
    const int num_left = num_workers(*cluster);
    LOCKSTEP_EXPECTS(num_left >= worker_options_.min_workers, ContextError, kShrink, ": ", num_left,
                     num_left == 1 ? " worker is left" : " workers are left", ", and min_workers is ",
                     worker_options_.min_workers,
                     ". Start all anew from the newest checkpoint, or grow before more are lost.");
    std::exception_ptr error;
    try {
      std::unique_ptr<MultiWorkerMirroredStrategy> shrunk(new MultiWorkerMirroredStrategy(
          cluster, state.options(), resize_options(), {former.get(), num_lost}));
      static_cast<void>(former->take_successor());
      // Who comes late is told so: it would go on alone, too.
      if (num_left == 1 && (!leaders.empty() || former != state.config().workers)) shrunk->listen_alone();
      return shrunk;
    } catch (const PeerLost&) {
      error = std::current_exception();
    } catch (const CollectiveTimeout&) {
      error = std::current_exception();
    } catch (...) {
      static_cast<void>(former->take_successor());
      throw;
    }
    if (std::shared_ptr<detail::WorkerGroup> made = former->take_successor()) {
      if (made->lost_workers(made->report_limit()).empty()) std::rethrow_exception(error);
      former = std::move(made);
      resolver = std::move(cluster);
      leaders.clear();
    } else if (former->lost_workers().size() == num_lost) {
      leaders.push_back(detail::first_left(*resolver, lost));
    }
  }
}

WorkerOptions MultiWorkerMirroredStrategy::resize_options() const {
  WorkerOptions options = worker_options_;
  options.devices = detail::StrategyState::of(*this).config().logical_devices.front();
  if (options.start_timeout.count() == 0) options.start_timeout = kResizeTimeout;
  return options;
}

detail::WorkerGroup* MultiWorkerMirroredStrategy::group_to_join(std::string_view call) {
  detail::check_cross_replica(*this, call);
  const detail::StrategyConfig& config = detail::StrategyState::of(*this).config();
  if (config.workers == nullptr && lone_ == nullptr) {
    const cluster::Resolver& resolver = *config.cluster_resolver;
    const auto addresses = detail::addresses_of_workers(resolver.cluster_spec());
    if (addresses.size() != 1 || addresses.front().empty() || resolver.task_type() == detail::kEvaluator)
      return nullptr;
    lone_ = detail::WorkerGroup::connect(resolver,
                                         {.silence_limit = worker_options_.heartbeat_timeout,
                                          .token = worker_options_.token,
                                          .listen_host = worker_options_.listen_host,
                                          .listens_alone = true},
                                         cluster::environment_variables());
  }
  detail::WorkerGroup* const group = config.workers == nullptr ? lone_.get() : config.workers.get();
  LOCKSTEP_EXPECTS(!group->is_launched(), Unsupported, call,
                   ": MPI has started the workers, and connects nobody else with them. Start them with "
                   "torchrun or TF_CONFIG, or start all anew from a checkpoint.");
  return group;
}

void MultiWorkerMirroredStrategy::listen_alone() try {
  static_cast<void>(group_to_join(kShrink));
} catch (const Error& error) {
  detail::warn(detail::concat(kShrink, ": workers that come late are not told so: ", error.what()));
}

int MultiWorkerMirroredStrategy::num_waiting() {
  detail::WorkerGroup* const group = group_to_join(kNumWaiting);
  if (group == nullptr) return 0;
  const auto number = [&] { return std::int64_t{group->num_waiting()}; };
  return static_cast<int>(detail::has_workers(*this) ? detail::from_chief(*this, kNumWaiting, number)
                                                     : number());
}

std::unique_ptr<MultiWorkerMirroredStrategy> MultiWorkerMirroredStrategy::grow() {
  detail::WorkerGroup* const group = group_to_join(kGrow);
  if (group == nullptr) return nullptr;
  std::optional<Invitation> invitation;
  const std::vector<std::string> said =
      detail::gather_texts(*this, kGrow, [&] { return invitation.emplace(*group).text(); });
  if (said.front().empty()) return nullptr;
  const detail::StrategyState& state = detail::StrategyState::of(*this);
  const cluster::Resolver& resolver = *state.config().cluster_resolver;
  std::string why;
  // Making it ends with an all_gather, which worker 0 answers in one order with the losses that it reports:
  // all have the larger cluster, or none. Only if worker 0 ends while it sends these answers do some have it.
  // Their next call throws PeerLost, and `shrink`, where the others do not come, CollectiveTimeout.
  try {
    auto cluster = detail::grown_cluster(resolver, Invitation::joiners(said.front()));
    std::unique_ptr<MultiWorkerMirroredStrategy> grown(new MultiWorkerMirroredStrategy(
        std::move(cluster), state.options(), resize_options(), {.group = group}));
    invitation->succeed();
    static_cast<void>(group->take_successor());
    return grown;
  } catch (const std::exception& error) {
    why = error.what();
    static_cast<void>(group->take_successor());
  }
  invitation->withdraw();  // those that come late hear that the start has ended
  detail::WorkerGroup::forget_unused(detail::addresses_of_workers(resolver.cluster_spec()).front());
  // All come here, or none: those that have given up wait for the others, which may do so much later.
  detail::call_serialised(*this, kGrow, [&] {
    if (!detail::has_workers(*this)) return;
    std::chrono::milliseconds limit = state.options().timeout;
    if (limit.count() > 0) limit += resize_options().start_timeout;
    detail::StrategyState::of(*this).meet_workers(
        kGrowInVain, [&](detail::WorkerMeeting& meeting) { meeting.meet(kGrowInVain, {}, limit); });
  });
  detail::warn(detail::concat(kGrow, ": nobody joins now, and the workers go on as they were: ", why));
  return nullptr;
}

std::unique_ptr<MultiWorkerMirroredStrategy> MultiWorkerMirroredStrategy::join(
    const std::string& chief, const CommunicationOptions& options, const WorkerOptions& worker_options,
    const std::string& address) {
  using Clock = std::chrono::steady_clock;
  check(worker_options);
  static_cast<void>(options.merged_over({}));
  detail::check_devices(worker_options.devices, kJoin);
  const bool has_limit = worker_options.start_timeout.count() > 0;
  const auto end = Clock::now() + worker_options.start_timeout;
  const auto rest = [&] {
    return std::max(std::chrono::milliseconds(1),
                    std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
  };
  for (;;) {
    detail::control::Invitation invitation =
        detail::WorkerGroup::wait_to_join(chief, address,
                                          {.start_timeout = has_limit ? rest() : worker_options.start_timeout,
                                           .silence_limit = worker_options.heartbeat_timeout,
                                           .token = worker_options.token},
                                          cluster::environment_variables());
    invitation.addresses.front() = chief;
    WorkerOptions own = worker_options;
    own.start_timeout = has_limit ? rest() : kResizeTimeout;
    try {
      return std::unique_ptr<MultiWorkerMirroredStrategy>(
          new MultiWorkerMirroredStrategy(detail::cluster_of(invitation.addresses, invitation.worker),
                                          options, own, {.invitation = &invitation}));
    } catch (const Error& error) {
      // Another one has failed, or is lost; or this one came to those who go on without it.
      const bool is_outdated = dynamic_cast<const ContextError*>(&error) && invitation.is_withdrawn();
      if (dynamic_cast<const CollectiveError*>(&error) == nullptr && !is_outdated) throw;
      detail::warn(
          detail::concat(kJoin, ": it waits again, as the workers did not go on with it: ", error.what()));
    }
    detail::WorkerGroup::forget_unused(chief);
  }
}

}  // namespace lockstep
