#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/launcher_variables.hpp"

namespace lockstep::detail {

/// The hosts of a Slurm list such as "node[01-03,7],login": ranges keep their zeros, and of several ranges in
/// one name ("rack[0-1]n[1-2]") the last one runs fastest. As `scontrol show hostnames` writes them.
/// @throws InvalidArgument  from `variables.refuse(name, …)`, whose value it is.
std::vector<std::string> parse_node_list(const LauncherVariables& variables, std::string_view name);

/// The numbers of a list such as "2(x3),1": 2, 2, 2, 1; each at least 1.
/// @throws InvalidArgument  from `variables.refuse(name, …)`, whose value it is.
std::vector<int> parse_tasks_per_node(const LauncherVariables& variables, std::string_view name);

/// Where a step's tasks run.
struct SlurmTask {
  std::size_t node;
  int local_id;
};
/// The tasks in order: a node's follow each other, or they go round the nodes that have room.
std::vector<SlurmTask> distribute_tasks(const std::vector<int>& tasks_per_node, bool cyclic);

}  // namespace lockstep::detail
