#include <algorithm>
#include <iterator>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/error.hpp>

#include "cluster/evaluator.hpp"
#include "detail/expects.hpp"

namespace lockstep::cluster {
namespace {

using detail::kEvaluator;
constexpr std::string_view kChief = "chief", kWorker = "worker", kPs = "ps";

/// The number of tasks of a job that may be missing.
int num_tasks(const ClusterSpec& spec, std::string_view job) {
  return spec.contains(job) ? spec.num_tasks(job) : 0;
}

/// The chief, else the first worker.
std::optional<Task> leader(const ClusterSpec& spec) {
  for (const std::string_view job : {kChief, kWorker})
    if (num_tasks(spec, job) > 0) return Task{std::string(job), spec.tasks(job).begin()->first};
  return std::nullopt;
}

void check_works(std::string_view what, const ClusterSpec& spec, std::string_view type, int id) {
  validate_cluster_spec(spec, type, id);
  LOCKSTEP_EXPECTS(type != kPs, InvalidArgument, what, ": a task of the type '", type,
                   "' is not one of the workers. Ask for a chief, a worker or an evaluator.");
}

}  // namespace

void validate_cluster_spec(const ClusterSpec& spec, std::string_view type, int id) {
  LOCKSTEP_EXPECTS(type == kChief || type == kWorker || type == kEvaluator || type == kPs, InvalidArgument,
                   "validate_cluster_spec: '", type,
                   "' is not a type of task. The types are chief, worker, evaluator and ps.");
  if (!detail::is_evaluator_outside(spec, {std::string(type), id}))
    static_cast<void>(spec.task_address(type, id));  // throws if there is no such task
  for (const std::string_view job : {kChief, kEvaluator})
    LOCKSTEP_EXPECTS(num_tasks(spec, job) <= 1, InvalidArgument, "validate_cluster_spec: the cluster ", spec,
                     " has ", num_tasks(spec, job), " tasks in the job ", job, ". Leave at most one.");
}

bool is_chief(const ClusterSpec& spec, std::string_view type, int id) {
  validate_cluster_spec(spec, type, id);
  return type == kEvaluator || leader(spec) == Task{std::string(type), id};
}

int worker_count(const ClusterSpec& spec, std::string_view type, int id) {
  check_works("worker_count", spec, type, id);
  if (type == kEvaluator) return spec.num_tasks(type);
  return num_tasks(spec, kChief) + num_tasks(spec, kWorker);
}

int id_in_cluster(const ClusterSpec& spec, std::string_view type, int id) {
  check_works("id_in_cluster", spec, type, id);
  if (detail::is_evaluator_outside(spec, {std::string(type), id})) return id;
  const auto& tasks = spec.tasks(type);
  const auto position = std::distance(tasks.begin(), tasks.find(id));
  return static_cast<int>(position) + (type == kWorker ? num_tasks(spec, kChief) : 0);
}

std::optional<Task> collective_leader(const ClusterSpec& spec, std::string_view type, int id) {
  if (spec.empty()) return std::nullopt;
  validate_cluster_spec(spec, type, id);
  if (type == kEvaluator) return std::nullopt;
  std::optional<Task> task = leader(spec);
  LOCKSTEP_EXPECTS(task, InvalidArgument, "collective_leader: the cluster ", spec,
                   " has neither a chief nor a worker. Collectives need one of them.");
  return task;
}

}  // namespace lockstep::cluster
