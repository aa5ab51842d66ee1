#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/cluster/environment.hpp>

#include "fuzz/expect.hpp"

namespace {

using namespace lockstep::cluster;
using lockstep::test::accepts;
using lockstep::test::expect;

constexpr auto kNames = std::to_array<std::string_view>({
    "TORCHELASTIC_RUN_ID",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_LOCAL_RANK",
    "PMI_LOCAL_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "FLUX_TASK_RANK",
    "FLUX_JOB_SIZE",
    "FLUX_TASK_LOCAL_ID",
    "PMIX_RANK",
    "LSB_DJOB_NUMPROC",
    "LSF_PM_TASKID",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_DISTRIBUTION",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_JOB_NODELIST",
    "SLURM_TASKS_PER_NODE",
});

/// Lines, whose first byte, from 'A', chooses the variable.
EnvironmentVariables read_variables(std::string_view text) {
  EnvironmentVariables variables;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.empty()) continue;
    const std::string_view name = kNames[(static_cast<unsigned char>(line[0]) - 'A') % kNames.size()];
    // Numbers of five digits take long, and show nothing that smaller ones do not.
    if (name.ends_with("SIZE") || name.ends_with("TASKS") || name.ends_with("PER_NODE") ||
        name.ends_with("LIST")) {
      std::size_t num_digits = 0;
      for (const char c : line) {
        num_digits = '0' <= c && c <= '9' ? num_digits + 1 : 0;
        if (num_digits == 5) return {};
      }
    }
    variables[std::string(name)] = line.substr(1);
  }
  return variables;
}

void check(const Resolver& resolver) {
  const ClusterSpec spec = resolver.cluster_spec();
  if (spec.empty()) return;
  expect(resolver.task_type() == "worker" && spec.num_tasks("worker") == spec.num_tasks(),
         "a process is no worker");
  const int rank = resolver.task_id().value(), size = spec.num_tasks();
  expect(0 <= rank && rank < size, "a rank is not below the number of processes");
  const int local_size = resolver.local_size().value_or(size);
  expect(0 < local_size && local_size <= size, "a host has more processes than there are");
  const int local_rank = resolver.local_rank().value_or(0);
  expect(0 <= local_rank && local_rank < local_size, "a local rank is not below the host's number");
}

}  // namespace

/// Variables of launchers: they are refused, by name, or their process is one of the cluster's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const EnvironmentVariables variables = read_variables({reinterpret_cast<const char*>(data), size});
  accepts("from_environment", [&] { check(*from_environment(variables)); });
  return 0;
}
