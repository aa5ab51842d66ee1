#include "processes/launch.hpp"

#include <lockstep/cluster/roles.hpp>
#include <lockstep/error.hpp>

#include "detail/concat.hpp"

namespace lockstep::bench {

Launch find_launch(const cluster::EnvironmentVariables& variables) {
  try {
    auto resolver = cluster::from_environment(variables);
    const cluster::ClusterSpec spec = resolver->cluster_spec();
    if (spec.empty() || !resolver->task_type() || !resolver->task_id()) return {};
    const std::string type = *resolver->task_type();
    const int id = *resolver->task_id();
    if (type != "chief" && type != "worker")
      return {.note = detail::concat("This process runs alone: it is the task ", type, " ", id,
                                     " of its cluster, whose workers measure together")};
    const int num_processes = cluster::worker_count(spec, type, id);
    if (num_processes == 1) return {};
    const int process = cluster::id_in_cluster(spec, type, id);
    return {.resolver = std::move(resolver), .process = process, .num_processes = num_processes};
  } catch (const InvalidArgument& error) {  // there is a launcher, or the variables have another use
    return {.note = detail::concat("This process runs alone, whatever launched it: ", error.what())};
  }
}

}  // namespace lockstep::bench
