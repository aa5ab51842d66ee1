#!/bin/bash
# run_workers_mpi.sh MPIEXEC -n P [-r R] PROGRAM ARGUMENT...
#
# As run_workers.sh, but mpirun starts the P workers, each as if it were alone on its host: they meet through MPI. Skipped
# (77) where MPIEXEC is empty.
set -u
mpiexec=$1 processes=1 replicas=1
shift
while getopts n:r: option; do
  case $option in
    n) processes=$OPTARG ;;
    r) replicas=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if ! "$mpiexec" --version 2>&1 | grep -q "Open MPI\|OpenRTE"; then
  echo "skipped: there is no mpirun of Open MPI's"
  exit 77
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
workers=
for ((i = 0; i < processes; i++)); do workers+="${workers:+,}\"worker-$i:2222\""; done
export LOCKSTEP_TEST_FOLDER=$folder LOCKSTEP_TEST_REPLICAS=$replicas LOCKSTEP_ENGINE=mpi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout -k 5 280 "$mpiexec" --oversubscribe --bind-to none -np "$processes" bash -c '
  export TF_CONFIG="{\"cluster\": {\"worker\": ['"${workers//\"/\\\"}"']}, \"task\": {\"type\": \"worker\", \"index\": $OMPI_COMM_WORLD_RANK}}"
  LOCKSTEP_HOST_ID="the host of worker $OMPI_COMM_WORLD_RANK" exec "$@"' worker "$@"
