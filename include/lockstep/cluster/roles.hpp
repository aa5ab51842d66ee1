#pragma once

#include <optional>
#include <string_view>

#include <lockstep/cluster/cluster_spec.hpp>

#pragma GCC visibility push(default)

/// The role of a task in its cluster, by the rules of TensorFlow's multi_worker_util. An evaluator works
/// beside the training cluster: the cluster need not list it, and then its index is not checked.
namespace lockstep::cluster {

/// Checks the task against the cluster. Every function below begins with this check.
/// @throws InvalidArgument  the type is not "chief", "worker", "evaluator" or "ps"; the cluster has no such
/// task, and the task is not an evaluator of a cluster without that job; more than one chief, or more than
/// one evaluator.
void validate_cluster_spec(const ClusterSpec& spec, std::string_view type, int id);

/// Whether the task does the work that one task does for all, such as saving checkpoints. It is the chief or,
/// without a chief, the first worker; an evaluator is the chief of its own job. @throws InvalidArgument  as
/// validate_cluster_spec.
[[nodiscard]] bool is_chief(const ClusterSpec& spec, std::string_view type, int id);

/// The number of tasks that work together, this task included: the chief and the workers; for an evaluator,
/// the size of its job.
/// @throws InvalidArgument  as validate_cluster_spec; the type is "ps"; or the cluster does not list the
/// evaluator, so that its job has no known size.
[[nodiscard]] int worker_count(const ClusterSpec& spec, std::string_view type, int id = 0);

/// The task's position among these, from 0: the chief, then the workers by index. For an evaluator that the
/// cluster does not list, its index.
/// @throws InvalidArgument  as validate_cluster_spec, or the type is "ps".
[[nodiscard]] int id_in_cluster(const ClusterSpec& spec, std::string_view type, int id);

/// The task at which the others meet for collectives: the chief or, without a chief, the first worker. Empty
/// for an evaluator or an empty cluster.
/// @throws InvalidArgument  as validate_cluster_spec, or there is neither chief nor worker.
[[nodiscard]] std::optional<Task> collective_leader(const ClusterSpec& spec, std::string_view type, int id);

}  // namespace lockstep::cluster

#pragma GCC visibility pop
