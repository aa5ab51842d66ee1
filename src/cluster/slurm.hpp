#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cluster/launcher_variables.hpp"

namespace lockstep::detail {

/// The hosts of a Slurm list such as "node[01-03,7],login". Ranges keep their leading zeros, and of several
/// ranges in one name ("rack[0-1]n[1-2]") the last one varies fastest, as in the output of `scontrol show
/// hostnames`.
/// @throws InvalidArgument  from `variables.refuse(name, …)`; `name` is the variable with the list.
std::vector<std::string> parse_node_list(const LauncherVariables& variables, std::string_view name);

/// The numbers of a list such as "2(x3),1", which is 2, 2, 2, 1; each is at least 1.
/// @throws InvalidArgument  from `variables.refuse(name, …)`; `name` is the variable with the list.
std::vector<int> parse_tasks_per_node(const LauncherVariables& variables, std::string_view name);

/// The node of a step's task, and the task's index there.
struct SlurmTask {
  std::size_t node;
  int local_id;
};
/// The tasks in order: node by node or, if cyclic, one task at a time from each node that has room.
std::vector<SlurmTask> distribute_tasks(const std::vector<int>& tasks_per_node, bool cyclic);

}  // namespace lockstep::detail
