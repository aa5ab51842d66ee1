#!/bin/bash
# as_launched.sh LAUNCHER PROGRAM ARGUMENT...
#
# Runs a worker, which TF_CONFIG names, with the variables that a launcher sets in place of TF_CONFIG: torchrun or srun.
set -eu
launcher=$1
shift
index=$(sed 's/.*"index": *\([0-9]*\).*/\1/' <<<"$TF_CONFIG")
num_workers=$(grep -o '[^" ]*:[0-9][0-9]*' <<<"$TF_CONFIG" | wc -l)
MASTER_PORT=$(sed 's/[^:]*: *{[^:]*: *\["[^"]*:\([0-9]*\)".*/\1/' <<<"$TF_CONFIG")
unset TF_CONFIG
export MASTER_PORT
case $launcher in
  torchrun)
    export RANK=$index WORLD_SIZE=$num_workers LOCAL_RANK=$index LOCAL_WORLD_SIZE=$num_workers MASTER_ADDR=127.0.0.1
    export TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=True
    ;;
  srun)
    export SLURM_PROCID=$index SLURM_LOCALID=$index SLURM_NODEID=0 SLURM_JOB_ID=1 SLURM_STEP_ID=0
    export SLURM_NTASKS=$num_workers SLURM_STEP_NUM_TASKS=$num_workers
    export SLURM_JOB_NODELIST=localhost SLURM_STEP_NODELIST=localhost
    export SLURM_TASKS_PER_NODE=$num_workers SLURM_STEP_TASKS_PER_NODE=$num_workers
    ;;
  *)
    echo "as_launched.sh: there is no launcher $launcher" >&2
    exit 2
    ;;
esac
exec "$@"
