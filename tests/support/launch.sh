#!/bin/bash
# launch.sh LAUNCHER NUM_WORKERS PROGRAM ARGUMENT...: starts workers on this host as tf_config (by hand), torchrun, srun or
# mpirun does. Lines of the output may begin with the worker's index. Skipped (77) where MPIEXEC names no mpirun of Open
# MPI's. The exit status is 0 where all workers' is.
set -eu
launcher=$1 num_workers=$2
shift 2
here=$(dirname "$0")
case $launcher in
  tf_config) exec "$here/run_workers.sh" -n "$num_workers" --time-limit 100 "$@" ;;
  mpirun)
    if ! "${MPIEXEC:-}" --version 2>&1 | grep -q "Open MPI\|OpenRTE"; then
      echo "skipped: there is no mpirun of Open MPI's"
      exit 77
    fi
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    exec timeout -k 5 100 "$MPIEXEC" --oversubscribe --bind-to none -np "$num_workers" "$@"
    ;;
  *) exec "$here/run_workers.sh" -n "$num_workers" --time-limit 100 "$here/as_launched.sh" "$launcher" "$@" ;;
esac
