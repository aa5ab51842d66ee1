#!/usr/bin/env bash
# processes.sh PROGRAM: three processes with the four ranks of one communicator between them. All must pass.
set -u
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
pids=()
for process in 0 1 2; do
  VGPU_TEST_PROCESS=$process VGPU_TEST_ID="$folder/id" "$1" "a process of three" &
  pids+=($!)
done
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=1
done
exit $status
