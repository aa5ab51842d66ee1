#include <lockstep/cluster/union_resolver.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::cluster {
namespace {

using Resolvers = std::vector<std::shared_ptr<const Resolver>>;

/// The first resolver's properties of this process.
ResolverOptions options_of_first(const Resolvers& resolvers) {
  LOCKSTEP_EXPECTS(!resolvers.empty(), InvalidArgument, "UnionResolver: no resolvers. Pass at least one.");
  for (std::size_t i = 0; i < resolvers.size(); ++i)
    LOCKSTEP_EXPECTS(resolvers[i] != nullptr, InvalidArgument, "UnionResolver: resolver ", i, " of ",
                     resolvers.size(), " is null. Pass resolvers only.");
  const Resolver& first = *resolvers.front();
  return {.task_type = first.task_type(),
          .task_id = first.task_id(),
          .rpc_layer = first.rpc_layer(),
          .environment = first.environment(),
          .local_rank = first.local_rank(),
          .local_size = first.local_size()};
}

}  // namespace

UnionResolver::UnionResolver(Resolvers resolvers)
    : Resolver(options_of_first(resolvers)), resolvers_(std::move(resolvers)) {}

AcceleratorCounts UnionResolver::accelerators_of(const std::optional<Task>& task) const {
  const Resolver& first = *resolvers_.front();
  return task ? first.num_accelerators(task->type, task->index) : first.num_accelerators();
}

ClusterSpec UnionResolver::cluster_spec() const {
  std::vector<ClusterSpec> specs;
  for (const auto& resolver : resolvers_) specs.push_back(resolver->cluster_spec());

  std::map<std::string, bool> is_sparse;
  for (const ClusterSpec& spec : specs)
    for (const std::string& job : spec.jobs()) is_sparse[job] |= spec.is_sparse(job);

  std::map<std::string, ClusterSpec::Tasks> jobs;
  for (const auto& [job, by_index] : is_sparse) {
    std::map<int, std::string> merged;
    for (const ClusterSpec& spec : specs) {
      if (!spec.contains(job)) continue;
      for (const auto& [index, address] : spec.tasks(job)) {
        const auto [place, is_new] =
            merged.emplace(by_index ? index : static_cast<int>(merged.size()), address);
        LOCKSTEP_EXPECTS(is_new, InvalidArgument, "UnionResolver: the job '", job, "' has two tasks ", index,
                         ", '", place->second, "' and '", address,
                         "'. Give the tasks of sparse jobs different indices.");
      }
    }
    jobs.emplace(job, std::move(merged));
  }
  return ClusterSpec(jobs);
}

}  // namespace lockstep::cluster
