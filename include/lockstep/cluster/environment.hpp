#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <lockstep/cluster/resolver.hpp>

namespace lockstep::cluster {

/// Environment variables and their values.
using EnvironmentVariables = std::map<std::string, std::string, std::less<>>;

/// This process's environment now. As getenv: no other thread may change it meanwhile.
EnvironmentVariables environment_variables();

/// The cluster that this process was launched into, the first of these whose variables are set:
///
/// | launcher | known by | what it gives |
/// |---|---|---|
/// | TensorFlow's convention | TF_CONFIG | a TfConfigResolver; the task, if named, is one of the cluster's |
/// | torchrun | TORCHELASTIC_RUN_ID | worker RANK of WORLD_SIZE; LOCAL_RANK, LOCAL_WORLD_SIZE |
/// | Open MPI | OMPI_COMM_WORLD_RANK or _SIZE | worker _RANK of _SIZE; _LOCAL_RANK, _LOCAL_SIZE |
/// | torch's convention | RANK or WORLD_SIZE | as torchrun |
/// | Slurm's srun | SLURM_PROCID | worker _PROCID of _STEP_NUM_TASKS, else of _NTASKS; _LOCALID |
/// | none | | an empty cluster: this process works alone |
///
/// So a torchrun that mpirun or srun started goes first, and so does an mpirun within a Slurm job. A variable
/// that is set to nothing is not set. All of a launcher's processes are workers, worker 0 the one with rank
/// 0.
///
/// MASTER_ADDR and MASTER_PORT are the address of worker 0. Under torchrun and torch's convention both are
/// needed; elsewhere they are optional: the port is then 8888 (as TensorFlow's SlurmClusterResolver has it;
/// two jobs on one host need two), the host under Open MPI "localhost" where all processes share one, under
/// Slurm the first node. The other workers' addresses are unknown (empty) under torchrun and Open MPI. Under
/// Slurm they follow from SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE, else from SLURM_JOB_NODELIST and
/// SLURM_TASKS_PER_NODE: tasks in blocks, or cyclic where SLURM_DISTRIBUTION says so (unknown in other
/// distributions), the i-th one on a node at the port plus i. A program that a batch script starts without
/// srun looks like the first of SLURM_NTASKS processes.
///
/// @throws InvalidArgument  a variable is missing, is no number, out of range, or contradicts another one; a
/// list of nodes that cannot be read; TF_CONFIG as TfConfigResolver. Names the variables and their values.
std::shared_ptr<Resolver> from_environment(const EnvironmentVariables& variables = environment_variables());

}  // namespace lockstep::cluster
