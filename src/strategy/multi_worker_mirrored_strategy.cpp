#include <algorithm>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/device_manager.hpp>
#include <lockstep/strategy/multi_worker_mirrored_strategy.hpp>

#include "cluster/evaluator.hpp"
#include "cluster/shrunk_cluster.hpp"
#include "cluster/worker_group.hpp"
#include "detail/expects.hpp"
#include "detail/warn.hpp"
#include "strategy/runtime/default_devices.hpp"
#include "strategy/runtime/strategy_state.hpp"
#include "strategy/strategy_config.hpp"
#include "workers/binding.hpp"

namespace lockstep {
namespace {

constexpr std::string_view kName = "MultiWorkerMirroredStrategy";
constexpr std::string_view kShrink = "MultiWorkerMirroredStrategy::shrink";
constexpr std::chrono::minutes kShrinkTimeout{1};

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

detail::StrategyConfig configure(std::shared_ptr<cluster::Resolver> resolver,
                                 const CommunicationOptions& options, const WorkerOptions& worker_options,
                                 const detail::Shrunk& shrunk) {
  LOCKSTEP_EXPECTS(resolver != nullptr, InvalidArgument, kName,
                   ": no resolver. Pass cluster::from_environment(), or a resolver of the cluster.");
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
                                                 .shrunk_from = shrunk.from,
                                                 .num_lost = shrunk.num_lost},
                                                cluster::environment_variables());
  const std::vector<std::string> numbers =
      config.workers->all_gather("the number of replicas", std::to_string(num_replicas));
  for (std::size_t w = 1; w < numbers.size(); ++w)
    LOCKSTEP_EXPECTS(numbers[w] == numbers[0], InvalidArgument, kName, ": ",
                     config.workers->label(static_cast<int>(w)), " has ", numbers[w], " devices, ",
                     config.workers->label(0), " has ", numbers[0], ". Give every worker as many.");
  return config;
}

}  // namespace

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(std::shared_ptr<cluster::Resolver> resolver,
                                                         const CommunicationOptions& options,
                                                         const WorkerOptions& worker_options)
    : MultiWorkerMirroredStrategy(std::move(resolver), options, worker_options, detail::Shrunk{}) {}

MultiWorkerMirroredStrategy::MultiWorkerMirroredStrategy(std::shared_ptr<cluster::Resolver> resolver,
                                                         const CommunicationOptions& options,
                                                         const WorkerOptions& worker_options,
                                                         const detail::Shrunk& shrunk)
    : Strategy(configure(std::move(resolver), options, worker_options, shrunk)),
      worker_options_(worker_options) {}

std::unique_ptr<MultiWorkerMirroredStrategy> MultiWorkerMirroredStrategy::shrink() {
  const detail::StrategyState& state = detail::StrategyState::of(*this);
  detail::WorkerGroup* const group = state.config().workers.get();
  LOCKSTEP_EXPECTS(group != nullptr && group->loss() != nullptr, ContextError, kShrink,
                   ": no worker is lost. Call it after a call of the strategy has thrown PeerLost.");
  LOCKSTEP_EXPECTS(!group->is_launched(), Unsupported, kShrink,
                   ": MPI has started the workers, and does not go on without one. Start them with torchrun "
                   "or TF_CONFIG, or start all anew.");
  for (;;) {
    const std::vector<int> lost = group->lost_workers(2 * worker_options_.heartbeat_timeout);
    LOCKSTEP_EXPECTS(!lost.empty(), ContextError, kShrink, ": the strategy has ended (",
                     group->loss()->cause(), "), but no worker is lost. Make a new strategy on all workers.");
    WorkerOptions options = worker_options_;
    options.devices = state.config().logical_devices.front();
    if (options.start_timeout.count() == 0) options.start_timeout = kShrinkTimeout;
    auto cluster = detail::shrunk_cluster(*state.config().cluster_resolver, lost);
    try {
      return std::unique_ptr<MultiWorkerMirroredStrategy>(new MultiWorkerMirroredStrategy(
          std::move(cluster), state.options(), options, {group, lost.size()}));
    } catch (const PeerLost&) {
      if (group->lost_workers().size() == lost.size()) throw;
    }
  }
}

}  // namespace lockstep
