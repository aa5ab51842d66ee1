#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/cluster/resolver.hpp>

namespace lockstep::detail {

/// The addresses of the chief and the workers, in their order.
std::vector<std::string> addresses_of_workers(const cluster::ClusterSpec& spec);

/// The first of the cluster's workers, by their ids there, that is none of these; -1: all are.
int first_left(const cluster::Resolver& resolver, const std::vector<int>& lost);

/// The cluster without these of its workers, by their ids in the cluster, as the one that this process is of
/// it now. @pre the resolver knows its task.
/// @throws ContextError  this process is one of the lost; or the address of the first that is left is
/// unknown.
std::shared_ptr<cluster::Resolver> shrunk_cluster(const cluster::Resolver& resolver,
                                                  const std::vector<int>& lost);

/// The cluster of worker `own` of these addresses.
std::shared_ptr<cluster::Resolver> cluster_of(std::vector<std::string> addresses, int own);

/// The cluster with more workers behind its own, by their addresses, which may be empty, as the one that this
/// process is of it. @pre the resolver knows its task.
std::shared_ptr<cluster::Resolver> grown_cluster(const cluster::Resolver& resolver,
                                                 const std::vector<std::string>& joiners);

}  // namespace lockstep::detail
