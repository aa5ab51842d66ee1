#pragma once

#include <map>
#include <memory>
#include <string>

#include <lockstep/cluster/resolver.hpp>

#pragma GCC visibility push(default)

namespace lockstep::cluster {

/// Environment variables and their values.
using EnvironmentVariables = std::map<std::string, std::string, std::less<>>;

/// This process's environment now. As getenv: no other thread may change it meanwhile.
[[nodiscard]] EnvironmentVariables environment_variables();

/// The cluster that this process was launched into, the first of these whose variables are set:
///
/// | launcher | known by | what it gives |
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
/// (1) Or an evaluator, which the cluster need not list. (2) MPI_LOCALRANKID and MPI_LOCALNRANKS, else
/// PMI_LOCAL_RANK and PMI_LOCAL_SIZE. (3) Else of _NTASKS, else of the sum of _TASKS_PER_NODE.
///
/// So a torchrun that mpirun or srun started goes first, and so does an mpirun within a Slurm job. srun and
/// Flux may set PMI's variables themselves: where PMI_SIZE is SLURM_STEP_NUM_TASKS or FLUX_JOB_SIZE, their
/// rows hold. A variable that is set to nothing, or to blanks, is not set; TF_CONFIG set to `{}` says that
/// this process works alone, whatever the other variables say. All of a launcher's processes are workers,
/// worker 0 the one with rank 0.
///
/// Launchers whose variables tell a rank, but not how many processes there are, are refused: a PMIx launcher
/// (PMIX_RANK) other than srun and Flux, LSF's blaunch (LSF_PM_TASKID), Cray's aprun (ALPS_APP_PE), and Cray
/// PALS without PMI (PALS_RANKID).
///
/// MASTER_ADDR, a host's name or address, and MASTER_PORT are the address of worker 0. Under torchrun and
/// torch's convention both are needed; elsewhere they are optional: the port is then 8888 (as TensorFlow's
/// SlurmClusterResolver has it; two jobs on one host need two), the host under Slurm the first node, under
/// the others "localhost" where all processes share one, which Flux does not tell. The other workers'
/// addresses are known under Slurm only, where they follow from SLURM_STEP_NODELIST and
/// SLURM_STEP_TASKS_PER_NODE, else from SLURM_JOB_NODELIST and SLURM_TASKS_PER_NODE: tasks in blocks, or
/// cyclic where SLURM_DISTRIBUTION says so (unknown in other distributions), the i-th one on a node at the
/// port plus i; elsewhere they are empty. A program that a batch script starts without srun looks like the
/// first of the job's tasks.
///
/// @throws InvalidArgument  a variable is missing, is no number, out of range, or contradicts another one; a
/// list of nodes, or a MASTER_ADDR, that cannot be one; a MASTER_ADDR that is another node than task 0's; a
/// launcher that is refused; TF_CONFIG as TfConfigResolver. Names the variables and their values.
[[nodiscard]] std::shared_ptr<Resolver> from_environment(
    const EnvironmentVariables& variables = environment_variables());

}  // namespace lockstep::cluster

#pragma GCC visibility pop
