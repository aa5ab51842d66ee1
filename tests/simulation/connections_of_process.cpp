#include "simulation/connections_of_process.hpp"

#include <map>

#include "cluster/worker_connections.hpp"
#include "detail/immortal.hpp"
#include "simulation/system/system.hpp"

namespace lockstep {

// In place of src/cluster/worker_connections.cpp.
detail::WorkerConnections& detail::WorkerConnections::of_process() {
  using simulation::System;
  const simulation::Process* const process =
      System::self() == nullptr ? nullptr : &System::current()->process();
  return immortal<std::map<const simulation::Process*, WorkerConnections>>()[process];
}

namespace simulation {

void leave_connections() {
  detail::WorkerConnections::ByCluster& by_cluster = detail::WorkerConnections::of_process().by_cluster;
  for (const auto& [cluster, connection] : by_cluster) connection->exit();
  by_cluster.clear();
}

}  // namespace simulation
}  // namespace lockstep
