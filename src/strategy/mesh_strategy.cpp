#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <lockstep/cluster/resolver.hpp>
#include <lockstep/cluster/roles.hpp>
#include <lockstep/error.hpp>
#include <lockstep/strategy/mesh_strategy.hpp>

#include "cluster/evaluator.hpp"
#include "detail/expects.hpp"
#include "strategy/runtime/default_devices.hpp"
#include "strategy/runtime/strategy_state.hpp"

namespace lockstep {

namespace {

constexpr std::string_view kName = "MeshStrategy";

/// This process's task in its cluster; nothing: it works alone.
std::optional<cluster::Task> own_task(const cluster::Resolver* resolver) {
  if (resolver == nullptr || resolver->cluster_spec().empty()) return std::nullopt;
  LOCKSTEP_EXPECTS(
      resolver->task_type() && resolver->task_id(), InvalidArgument, kName,
      ": the resolver has a cluster, but does not say which of its tasks this process is. Give it "
      "a task type and a task id.");
  cluster::Task task{*resolver->task_type(), *resolver->task_id()};
  if (detail::is_evaluator_outside(resolver->cluster_spec(), task)) return std::nullopt;
  return task;
}

/// Every device of the cluster.
std::vector<Device> all_devices(const cluster::Resolver* resolver, const std::optional<cluster::Task>& task) {
  if (task) {
    const int num_tasks = cluster::worker_count(resolver->cluster_spec(), task->type, task->index);
    LOCKSTEP_EXPECTS(num_tasks == 1, ContextError, kName,
                     ": without an assignment every device of the cluster's ", num_tasks,
                     " tasks is a replica, and those of other tasks than ", *task,
                     " are not this process's. Pass an assignment of its own devices.");
  }
  std::vector<Device> devices;
  if (resolver != nullptr) {
    const cluster::AcceleratorCounts counts = resolver->num_accelerators();
    const auto gpus = counts.find(std::string(name(DeviceKind::gpu)));
    for (int k = 0; gpus != counts.end() && k < gpus->second; ++k) devices.emplace_back(DeviceKind::gpu, k);
  }
  return detail::or_default_devices(std::move(devices));
}

/// A device by its name in the cluster; one of this process by its name in this process.
Device assigned_device(const DeviceAssignment& assignment, int replica, int core,
                       const std::optional<cluster::Task>& task) {
  if (!task) return assignment.device(replica, core);
  Device device = assignment.device(replica, core, task->type);
  return device.task() == task->index ? Device(device.kind(), device.index()) : device;
}

/// @return [num_logical_devices][num_replicas].
std::vector<std::vector<Device>> logical_devices(const cluster::Resolver* resolver,
                                                 const std::optional<DeviceAssignment>& assignment) {
  const std::optional<cluster::Task> task = own_task(resolver);
  if (!assignment) return {all_devices(resolver, task)};
  if (task)  // checks the task
    static_cast<void>(cluster::worker_count(resolver->cluster_spec(), task->type, task->index));
  std::vector<std::vector<Device>> devices(static_cast<std::size_t>(assignment->num_cores_per_replica()));
  for (int replica = 0; replica < assignment->num_replicas(); ++replica)
    for (std::size_t core = 0; core < devices.size(); ++core)
      devices[core].push_back(assigned_device(*assignment, replica, static_cast<int>(core), task));
  return devices;
}

}  // namespace

MeshStrategy::MeshStrategy() : MeshStrategy(nullptr) {}

MeshStrategy::MeshStrategy(DeviceAssignment assignment, const CommunicationOptions& options)
    : MeshStrategy(nullptr, std::move(assignment), options) {}

MeshStrategy::MeshStrategy(std::shared_ptr<cluster::Resolver> resolver,
                           std::optional<DeviceAssignment> assignment, const CommunicationOptions& options)
    : Strategy({.kind = {.name = kName, .non_slot_device = Device()},
                .logical_devices = logical_devices(resolver.get(), assignment),
                .options = options,
                .cluster_resolver = resolver,
                .assignment = std::move(assignment)}) {}

const std::optional<DeviceAssignment>& MeshStrategy::device_assignment() const& noexcept {
  return detail::StrategyState::of(*this).config().assignment;
}

int MeshStrategy::num_hosts() const {
  const std::optional<DeviceAssignment>& assignment = device_assignment();
  if (!assignment) return 1;
  std::set<std::string> hosts;
  for (int replica = 0; replica < assignment->num_replicas(); ++replica)
    hosts.insert(assignment->host_device(replica).canonical_name());
  return static_cast<int>(hosts.size());
}

int MeshStrategy::num_replicas_per_host() const noexcept {
  const std::optional<DeviceAssignment>& assignment = device_assignment();
  if (!assignment) return num_replicas_in_sync();
  return std::min(num_replicas_in_sync(),
                  assignment->topology().num_devices_per_task() / num_logical_devices());
}

std::optional<DeviceAssignment> MeshStrategy::device_assignment() const&& { return device_assignment(); }

}  // namespace lockstep
