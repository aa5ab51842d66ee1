#pragma once

#include <memory>
#include <string>

#include <lockstep/cluster/environment.hpp>

namespace lockstep::bench {

/// What the launcher's variables say of this process, and where it stands among the others.
struct Launch {
  std::shared_ptr<cluster::Resolver> resolver{};  ///< Null: this process runs alone.
  int process = 0;
  int num_processes = 1;
  int index_on_host = 0;  ///< Among the processes of its host, once they have met: Processes::index_on_host.
  std::string note{};     ///< For the report: why it runs alone, where that may surprise.
};

/// The cluster of cluster::from_environment. Its chief and workers measure together; another task, and a
/// process of a launcher that is not understood, runs alone.
Launch find_launch(const cluster::EnvironmentVariables& variables = cluster::environment_variables());

}  // namespace lockstep::bench
