#pragma once

#include <map>
#include <memory>
#include <string>

#include <lockstep/cluster/resolver.hpp>

#pragma GCC visibility push(default)

namespace lockstep::cluster {

/// Environment variables and their values.
using EnvironmentVariables = std::map<std::string, std::string, std::less<>>;

/// This process's environment now. As with getenv, no other thread may change the environment meanwhile.
[[nodiscard]] EnvironmentVariables environment_variables();

/// The cluster that this process was launched into, from the first row whose variables are set:
///
/// | launcher | recognised by | result |
/// |---|---|---|
/// | TensorFlow's convention | TF_CONFIG | a TfConfigResolver; its task, if named, is in the cluster (1) |
/// | torchrun | TORCHELASTIC_RUN_ID | worker RANK of WORLD_SIZE; LOCAL_RANK, LOCAL_WORLD_SIZE |
/// | Open MPI | OMPI_COMM_WORLD_RANK or _SIZE | worker _RANK of _SIZE; _LOCAL_RANK, _LOCAL_SIZE |
/// | MVAPICH2 | MV2_COMM_WORLD_RANK or _SIZE | as Open MPI |
/// | MPICH, Intel MPI, Cray PALS | PMI_RANK or PMI_SIZE | worker PMI_RANK of PMI_SIZE (2) |
/// | torch's convention | RANK or WORLD_SIZE | as torchrun |
/// | LSF's jsrun | JSM_NAMESPACE_RANK or _SIZE | as Open MPI |
/// | Flux | FLUX_TASK_RANK or FLUX_JOB_SIZE | worker _RANK of _SIZE; FLUX_TASK_LOCAL_ID |
/// | Slurm's srun | SLURM_PROCID | worker _PROCID of _STEP_NUM_TASKS (3); _LOCALID |
/// | none | | an empty cluster: this process works alone |
///
/// (1) An evaluator need not be listed in the cluster. (2) The local values are MPI_LOCALRANKID and
/// MPI_LOCALNRANKS, else PMI_LOCAL_RANK and PMI_LOCAL_SIZE. (3) Without it, the count is _NTASKS, else the
/// sum of _TASKS_PER_NODE.
///
/// So torchrun takes precedence over the mpirun or srun that started it, and mpirun over the Slurm job around
/// it. srun and Flux may set PMI's variables themselves: if PMI_SIZE is SLURM_STEP_NUM_TASKS or
/// FLUX_JOB_SIZE, their rows apply. A variable whose value is empty or blank counts as not set. TF_CONFIG set
/// to `{}` says that this process works alone, whatever the other variables say. All of a launcher's
/// processes are workers; worker 0 has rank 0.
///
/// Launchers whose variables give a rank but not the number of processes are refused: a PMIx launcher
/// (PMIX_RANK) other than srun and Flux, LSF's blaunch (LSF_PM_TASKID), Cray's aprun (ALPS_APP_PE), and Cray
/// PALS without PMI (PALS_RANKID).
///
/// MASTER_ADDR, a host's name or address, and MASTER_PORT are the address of worker 0. torchrun and torch's
/// convention need both. Elsewhere they are optional: the port is then 8888 (as in TensorFlow's
/// SlurmClusterResolver; two jobs on one host need two ports). The host is then the first node under Slurm;
/// under the others "localhost" if all processes share one host, which Flux does not report. Only under Slurm
/// are the other workers' addresses known: they follow from SLURM_STEP_NODELIST and
/// SLURM_STEP_TASKS_PER_NODE, else from SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE. Tasks lie in blocks, or
/// cyclically if SLURM_DISTRIBUTION says so (other distributions leave the addresses unknown), and the i-th
/// task of a node has the port plus i. Under the other launchers these addresses are empty. A program that a
/// batch script starts without srun looks like the first of the job's tasks.
///
/// @throws InvalidArgument  a variable is missing, is not a number, is out of range, or contradicts another;
/// a list of nodes or a MASTER_ADDR is malformed; MASTER_ADDR names another node than task 0's; the launcher
/// is refused; or TF_CONFIG is invalid as for TfConfigResolver. The message names the variables and their
/// values.
[[nodiscard]] std::shared_ptr<Resolver> from_environment(
    const EnvironmentVariables& variables = environment_variables());

}  // namespace lockstep::cluster

#pragma GCC visibility pop
