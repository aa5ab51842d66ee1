#!/bin/sh
# train_digits_workers.sh TRAIN_DIGITS RUN_WORKERS [MPIEXEC]: two workers with one replica each, started with TF_CONFIG and by
# mpirun, save bit for bit what one process with two replicas saves.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --epochs 2 --replicas 2 --checkpoints "$folder/one_process"
"$2" -n 2 --time-limit 100 "$1" --epochs 2 --replicas 1 --checkpoints "$folder/tf_config"
cmp "$folder/one_process/checkpoint-2.safetensors" "$folder/tf_config/checkpoint-2.safetensors"
if [ -n "${3:-}" ] && "$3" --version 2>&1 | grep -q "Open MPI\|OpenRTE"; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  timeout -k 5 100 "$3" --oversubscribe --bind-to none -np 2 "$1" --epochs 2 --replicas 1 --checkpoints "$folder/mpirun"
  cmp "$folder/one_process/checkpoint-2.safetensors" "$folder/mpirun/checkpoint-2.safetensors"
fi
