#pragma once

#include <optional>
#include <string_view>

#include <lockstep/cluster/cluster_spec.hpp>

#pragma GCC visibility push(default)

/// What a task is in its cluster, by the rules of TensorFlow's multi_worker_util. An evaluator works beside
/// the training cluster: the cluster need not list it, and its index is then its own affair.
namespace lockstep::cluster {

/// What every function here begins with.
/// @throws InvalidArgument  the type is not "chief", "worker", "evaluator" or "ps"; the cluster has no such
/// task, and the task is not an evaluator of a cluster without that job; more than one chief, or more than
/// one evaluator.
void validate_cluster_spec(const ClusterSpec& spec, std::string_view type, int id);

/// Whether the task does what one task does for all, as saving checkpoints: the chief, without one the first
/// worker; an evaluator for itself. @throws InvalidArgument  as validate_cluster_spec.
[[nodiscard]] bool is_chief(const ClusterSpec& spec, std::string_view type, int id);

/// How many tasks the task works with, itself included: the chief and the workers; for an evaluator, the size
/// of its job.
/// @throws InvalidArgument  as validate_cluster_spec; the type is "ps"; an evaluator that the cluster does
/// not list, which is not counted.
[[nodiscard]] int worker_count(const ClusterSpec& spec, std::string_view type, int id = 0);

/// The task's position among these, from 0: the chief, then the workers by index. Of an evaluator, its index.
/// @throws InvalidArgument  as validate_cluster_spec, or the type is "ps".
[[nodiscard]] int id_in_cluster(const ClusterSpec& spec, std::string_view type, int id);

/// The task that the others meet at for collectives: the chief, without one the first worker; none for an
/// evaluator or in an empty cluster.
/// @throws InvalidArgument  as validate_cluster_spec, or there is neither chief nor worker.
[[nodiscard]] std::optional<Task> collective_leader(const ClusterSpec& spec, std::string_view type, int id);

}  // namespace lockstep::cluster

#pragma GCC visibility pop
