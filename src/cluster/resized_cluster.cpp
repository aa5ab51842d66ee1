#include "cluster/resized_cluster.hpp"

#include <algorithm>
#include <utility>

#include <lockstep/cluster/roles.hpp>
#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

std::vector<std::string> addresses_of_workers(const cluster::ClusterSpec& spec) {
  std::vector<std::string> addresses;
  for (const char* const job : {"chief", "worker"})
    if (spec.contains(job))
      for (const auto& [index, address] : spec.tasks(job)) addresses.push_back(address);
  return addresses;
}

int first_left(const cluster::Resolver& resolver, const std::vector<int>& lost) {
  const auto num_workers = static_cast<int>(addresses_of_workers(resolver.cluster_spec()).size());
  for (int worker = 0; worker < num_workers; ++worker)
    if (std::ranges::find(lost, worker) == lost.end()) return worker;
  return -1;
}

std::shared_ptr<cluster::Resolver> shrunk_cluster(const cluster::Resolver& resolver,
                                                  const std::vector<int>& lost) {
  const cluster::ClusterSpec spec = resolver.cluster_spec();
  const std::vector<std::string> all = addresses_of_workers(spec);
  const int own = cluster::id_in_cluster(spec, *resolver.task_type(), *resolver.task_id());
  const auto is_lost = [&](int worker) { return std::ranges::find(lost, worker) != lost.end(); };
  LOCKSTEP_EXPECTS(!is_lost(own), ContextError,
                   "Going on without the workers that are lost: this one, worker ", own,
                   ", was silent, and the others go on without it. End it.");
  std::vector<std::string> left;
  int own_index = 0;
  for (int worker = 0; worker < static_cast<int>(all.size()); ++worker) {
    if (is_lost(worker)) continue;
    if (worker == own) own_index = static_cast<int>(left.size());
    left.push_back(all[static_cast<std::size_t>(worker)]);
  }
  LOCKSTEP_EXPECTS(
      left.size() == 1 || !left.front().empty(), ContextError,
      "Going on without the workers that are lost: worker ", first_left(resolver, lost),
      " would lead those that are left, and its address is not known. Tell all workers' addresses "
      "by TF_CONFIG, or start all anew.");
  return cluster_of(std::move(left), own_index);
}

std::shared_ptr<cluster::Resolver> cluster_of(std::vector<std::string> addresses, int own) {
  return std::make_shared<cluster::SimpleResolver>(
      cluster::ClusterSpec{{"worker", std::move(addresses)}},
      cluster::ResolverOptions{.task_type = "worker", .task_id = own});
}

std::shared_ptr<cluster::Resolver> grown_cluster(const cluster::Resolver& resolver,
                                                 const std::vector<std::string>& joiners) {
  const cluster::ClusterSpec spec = resolver.cluster_spec();
  std::vector<std::string> all = addresses_of_workers(spec);
  all.insert(all.end(), joiners.begin(), joiners.end());
  return cluster_of(std::move(all), cluster::id_in_cluster(spec, *resolver.task_type(), *resolver.task_id()));
}

}  // namespace lockstep::detail
