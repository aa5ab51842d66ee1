#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/detail/mutex.hpp>

#include "cluster/worker_connection.hpp"

namespace lockstep::detail {

/// The connections of this process to clusters.
struct WorkerConnections {
  /// The engine, and where it does not start the processes, their addresses.
  using Key = std::vector<std::string>;
  using ByCluster = std::map<Key, std::shared_ptr<WorkerConnection>>;

  Mutex opening{"the workers' connections"};  // one at a time; a process that ends does not wait for it
  LeafMutex mutex;                            // guards by_cluster
  ByCluster by_cluster;

  /// Never destroyed.
  static WorkerConnections& of_process();
};

}  // namespace lockstep::detail
