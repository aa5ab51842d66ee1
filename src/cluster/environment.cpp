#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <vector>

#include <unistd.h>

#include <lockstep/cluster/environment.hpp>
#include <lockstep/cluster/simple_resolver.hpp>
#include <lockstep/cluster/tf_config_resolver.hpp>
#include <lockstep/error.hpp>

#include "ascii.hpp"
#include "cluster/evaluator.hpp"
#include "cluster/launcher_variables.hpp"
#include "cluster/slurm.hpp"
#include "detail/expects.hpp"
#include "detail/in_quotes.hpp"

namespace lockstep::cluster {
namespace {

using detail::LauncherVariables;

constexpr int kMaxProcesses = 1 << 20;  // far more than launchers start, but few enough to list
constexpr int kMaxPort = 65'535;
constexpr int kDefaultPort = 8888;  // port_base of TensorFlow's SlurmClusterResolver

constexpr std::string_view kMasterHost = "MASTER_ADDR", kMasterPort = "MASTER_PORT";

/// The ranks of this process among the processes that a launcher started.
struct ProcessRanks {
  int rank = 0;
  int size = 0;
  std::optional<int> local_rank, local_size;
};

/// The variables in which a launcher gives the ranks.
struct RankVariables {
  std::string_view rank, size, local_rank, local_size;
};

/// @param size  the number of processes if the variable `names.size` is not a plain number.
ProcessRanks read_ranks(const LauncherVariables& variables, const RankVariables& names,
                        std::optional<int> size = {}) {
  ProcessRanks ranks;
  ranks.size = size ? *size : variables.number(names.size, 1, kMaxProcesses);
  ranks.rank = variables.number(names.rank, 0, kMaxProcesses - 1);
  variables.expect_agreement(ranks.rank < ranks.size, names.rank, names.size, "ranks are below the size");
  ranks.local_size = variables.find_number(names.local_size, 1, kMaxProcesses);
  variables.expect_agreement(ranks.local_size.value_or(1) <= ranks.size, names.local_size, names.size,
                             "a host has no more processes than there are");
  ranks.local_rank = variables.find_number(names.local_rank, 0, kMaxProcesses - 1);
  variables.expect_agreement(ranks.local_rank.value_or(0) < ranks.local_size.value_or(ranks.size),
                             names.local_rank, ranks.local_size ? names.local_size : names.size,
                             "ranks are below the size");
  return ranks;
}

std::string address(const std::string& host, int port) {
  const bool is_ipv6 = host.find(':') != host.npos && !host.starts_with('[');
  return (is_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

int master_port(const LauncherVariables& variables) {
  return variables.find_number(kMasterPort, 1, kMaxPort).value_or(kDefaultPort);
}

/// @param addresses  those of the first workers; the others' are unknown.
std::shared_ptr<Resolver> make_worker(const ProcessRanks& ranks, std::vector<std::string> addresses) {
  addresses.resize(static_cast<std::size_t>(ranks.size));
  return std::make_shared<SimpleResolver>(ClusterSpec{{"worker", addresses}},
                                          ResolverOptions{.task_type = "worker",
                                                          .task_id = ranks.rank,
                                                          .local_rank = ranks.local_rank,
                                                          .local_size = ranks.local_size});
}

std::shared_ptr<Resolver> from_tf_config(const EnvironmentVariables& variables) {
  auto resolver = std::make_shared<TfConfigResolver>(ResolverOptions(), variables);
  const ClusterSpec spec = resolver->cluster_spec();
  if (spec.empty() || !resolver->task_type() || !resolver->task_id()) return resolver;
  const Task task{*resolver->task_type(), *resolver->task_id()};
  LOCKSTEP_EXPECTS(spec.contains(task) || detail::is_evaluator_outside(spec, task), InvalidArgument,
                   "from_environment: the environment variable TF_CONFIG is ",
                   detail::in_quotes(variables.find("TF_CONFIG")->second), ": its task ", task,
                   " is not one of its cluster ", spec, ". Name one of the cluster's tasks.");
  return resolver;
}

std::shared_ptr<Resolver> from_torchrun(const EnvironmentVariables& all) {
  const LauncherVariables variables(all, "torchrun");
  const ProcessRanks ranks = read_ranks(variables, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  const int port = variables.number(kMasterPort, 1, kMaxPort);
  return make_worker(ranks, {address(variables.host(kMasterHost), port)});
}

/// A launcher that gives ranks and sizes, but no addresses.
struct Launcher {
  std::string_view name;
  RankVariables variables;
};

// MPI's own launchers are checked first, because they run within the jobs of the others.
constexpr Launcher kOpenMpi = {"Open MPI's mpirun",
                               {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                                "OMPI_COMM_WORLD_LOCAL_SIZE"}};
constexpr Launcher kMvapich = {
    "MVAPICH2's mpirun_rsh",
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"}};
constexpr Launcher kJsrun = {
    "LSF's jsrun",
    {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"}};
constexpr Launcher kFlux = {"Flux", {"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", {}}};
constexpr std::string_view kPmiRank = "PMI_RANK", kPmiSize = "PMI_SIZE", kPmixRank = "PMIX_RANK";
constexpr std::string_view kSlurmRank = "SLURM_PROCID", kStepSize = "SLURM_STEP_NUM_TASKS";

/// MPICH and Intel MPI have their own names for the local rank and size; Cray PALS uses PMI's.
Launcher pmi(const EnvironmentVariables& all) {
  constexpr std::string_view kName = "MPICH's or Intel MPI's mpiexec";
  const LauncherVariables variables(all, kName);
  return {kName,
          {kPmiRank, kPmiSize, variables.first_set("MPI_LOCALRANKID", "PMI_LOCAL_RANK"),
           variables.first_set("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE")}};
}

bool is_known(const EnvironmentVariables& variables, const Launcher& launcher) {
  return detail::find_variable(variables, launcher.variables.rank) ||
         detail::find_variable(variables, launcher.variables.size);
}

/// Whether srun or Flux set the variables of PMI and PMIx for its step or job, rather than an mpiexec within
/// it: the number of processes is then that of the step or job.
bool is_pmi_of_scheduler(const EnvironmentVariables& variables) {
  const std::string* const size = detail::find_variable(variables, kPmiSize);
  const auto agrees = [&](std::string_view name) {
    const std::string* const tasks = detail::find_variable(variables, name);
    return tasks && (!size || *size == *tasks);
  };
  return agrees(kStepSize) || agrees(kFlux.variables.size);
}

void expect_pmi_agrees(const LauncherVariables& variables, std::string_view rank_name) {
  for (const std::string_view name : {kPmiRank, kPmixRank})
    variables.expect_agreement(!variables.find(name) || variables.text(name) == variables.text(rank_name),
                               name, rank_name, "a process has one rank");
}

std::shared_ptr<Resolver> from_launcher(const EnvironmentVariables& all, const Launcher& launcher) {
  const LauncherVariables variables(all, launcher.name);
  const ProcessRanks ranks = read_ranks(variables, launcher.variables);
  const int port = master_port(variables);
  if (variables.find(kMasterHost)) return make_worker(ranks, {address(variables.host(kMasterHost), port)});
  const bool share_host = ranks.size == 1 || ranks.local_size == ranks.size;
  return make_worker(ranks, {share_host ? address("localhost", port) : ""});
}

/// @throws InvalidArgument  the variables of the process's launcher do not give the number of processes.
void refuse_launchers_without_size(const EnvironmentVariables& all) {
  const bool is_lsf_alone = detail::find_variable(all, "LSB_DJOB_NUMPROC") &&
                            *detail::find_variable(all, "LSB_DJOB_NUMPROC") == "1";
  for (const auto& [name, launcher, is_alone] :
       {std::tuple{kPmixRank, "a PMIx launcher", is_pmi_of_scheduler(all)},
        {std::string_view("PALS_RANKID"), "Cray PALS", false},
        {std::string_view("ALPS_APP_PE"), "Cray's aprun", false},
        {std::string_view("LSF_PM_TASKID"), "LSF's blaunch", is_lsf_alone}}) {
    const std::string* const rank = detail::find_variable(all, name);
    LOCKSTEP_EXPECTS(
        !rank || is_alone, InvalidArgument, "from_environment (", launcher, "): ", name, " is ",
        detail::in_quotes(*rank),
        ", but no variable tells how many processes there are. Set RANK, WORLD_SIZE, MASTER_ADDR "
        "and MASTER_PORT in each process, or unset ",
        name, " if it works alone.");
  }
}

int sum_of_tasks(const LauncherVariables& variables, std::string_view name, const std::vector<int>& counts) {
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (sum > kMaxProcesses)
    variables.refuse(name,
                     detail::concat("it adds up to more than ", std::to_string(kMaxProcesses), " tasks"));
  return static_cast<int>(sum);
}

/// The numbers of tasks on the nodes: listed in the variable `name` or, if it is not set, equal on all nodes.
std::vector<int> tasks_per_node(const LauncherVariables& variables, std::vector<int> listed,
                                std::string_view name, std::string_view nodes_name, std::size_t num_nodes,
                                std::string_view size_name, int size) {
  if (listed.empty()) {
    const int n = static_cast<int>(num_nodes);
    if (size % n != 0)
      variables.refuse(name, detail::concat("it has to be, as ", std::to_string(size), " tasks on ",
                                            std::to_string(n), " nodes are not equally many on each"));
    return std::vector<int>(num_nodes, size / n);
  }
  variables.expect_agreement(listed.size() == num_nodes, name, nodes_name, "it has a number for each node");
  variables.expect_agreement(std::accumulate(listed.begin(), listed.end(), std::int64_t{0}) == size, name,
                             size_name, "it adds up to the number of tasks");
  return listed;
}

std::shared_ptr<Resolver> from_slurm(const EnvironmentVariables& all) {
  const LauncherVariables variables(all, "Slurm's srun");
  expect_pmi_agrees(variables, kSlurmRank);
  const bool has_step = variables.find("SLURM_STEP_NODELIST");
  const std::string_view nodes_name = has_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const std::string_view counts_name = has_step ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  std::vector<int> listed;
  if (variables.find(counts_name)) listed = detail::parse_tasks_per_node(variables, counts_name);

  // If a batch script requests no number of tasks, Slurm gives its process only the numbers of tasks on the
  // nodes.
  std::string_view size_name = variables.first_set(kStepSize, "SLURM_NTASKS");
  std::optional<int> size;
  if (!variables.find(size_name) && !listed.empty()) {
    size_name = counts_name;
    size = sum_of_tasks(variables, counts_name, listed);
  }
  ProcessRanks ranks = read_ranks(variables, {kSlurmRank, size_name, "SLURM_LOCALID", {}}, size);

  const std::vector<std::string> nodes = detail::parse_node_list(variables, nodes_name);
  const std::vector<int> counts = tasks_per_node(variables, std::move(listed), counts_name, nodes_name,
                                                 nodes.size(), size_name, ranks.size);

  const std::string* const distribution = variables.find("SLURM_DISTRIBUTION");
  const std::string across_nodes =
      distribution ? distribution->substr(0, distribution->find_first_of(":,")) : "block";
  const bool is_cyclic = equals_ignoring_case(across_nodes, "cyclic");
  const bool is_known = is_cyclic || across_nodes == "*" || equals_ignoring_case(across_nodes, "block");
  const std::vector<detail::SlurmTask> tasks = detail::distribute_tasks(counts, is_cyclic);

  const std::optional<int> node =
      variables.find_number("SLURM_NODEID", 0, static_cast<int>(nodes.size()) - 1);
  if (node || is_known) {
    const std::size_t here =
        node ? static_cast<std::size_t>(*node) : tasks[static_cast<std::size_t>(ranks.rank)].node;
    ranks.local_size = counts[here];
    variables.expect_agreement(ranks.local_rank.value_or(0) < counts[here], "SLURM_LOCALID",
                               variables.first_set(counts_name, size_name),
                               "local ids are below the number of tasks on the node");
  }

  const int port = master_port(variables);
  const std::string& master = variables.find(kMasterHost) ? variables.host(kMasterHost) : nodes.front();
  variables.expect_agreement(master == nodes.front() || std::ranges::find(nodes, master) == nodes.end(),
                             kMasterHost, nodes_name, "task 0 runs on the first node");
  std::vector<std::string> addresses = {address(master, port)};
  if (is_known)
    for (std::size_t i = 1; i < tasks.size(); ++i) {
      if (tasks[i].local_id > kMaxPort - port)
        variables.refuse(kMasterPort, detail::concat("task ", std::to_string(i), " is number ",
                                                     std::to_string(tasks[i].local_id),
                                                     " on its node, and port ", std::to_string(port),
                                                     " plus that number exceeds ", std::to_string(kMaxPort)));
      addresses.push_back(address(nodes[tasks[i].node], port + tasks[i].local_id));
    }
  return make_worker(ranks, std::move(addresses));
}

}  // namespace

EnvironmentVariables environment_variables() {
  EnvironmentVariables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::shared_ptr<Resolver> from_environment(const EnvironmentVariables& variables) {
  const auto is_set = [&](std::string_view name) {
    return detail::find_variable(variables, name) != nullptr;
  };
  if (is_set("TF_CONFIG")) return from_tf_config(variables);
  if (is_set("TORCHELASTIC_RUN_ID")) return from_torchrun(variables);
  if (is_known(variables, kOpenMpi)) return from_launcher(variables, kOpenMpi);
  if (is_known(variables, kMvapich)) return from_launcher(variables, kMvapich);
  if (is_known(variables, pmi(variables)) && !is_pmi_of_scheduler(variables))
    return from_launcher(variables, pmi(variables));
  if (is_set("RANK") || is_set("WORLD_SIZE")) return from_torchrun(variables);
  if (is_known(variables, kJsrun)) return from_launcher(variables, kJsrun);
  if (is_known(variables, kFlux)) {
    expect_pmi_agrees(LauncherVariables(variables, kFlux.name), kFlux.variables.rank);
    return from_launcher(variables, kFlux);
  }
  refuse_launchers_without_size(variables);
  if (is_set(kSlurmRank)) return from_slurm(variables);
  return std::make_shared<SimpleResolver>(ClusterSpec());
}

}  // namespace lockstep::cluster
