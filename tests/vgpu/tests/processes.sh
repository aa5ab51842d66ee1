#!/usr/bin/env bash
# processes.sh PROGRAM "test case" N [KILLED]: N processes of a test case. All must pass but those whose numbers KILLED
# lists, which must have been killed; and nothing of theirs may be left in shared memory (unless all are killed).
set -u
program=$1 test_case=$2 count=$3 killed=" ${4:-} "
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export VGPU_TEST_FOLDER=$folder VGPU_TEST_PROCESSES=$count
pids=()
for ((process = 0; process < count; ++process)); do
  VGPU_TEST_PROCESS=$process "$program" "$test_case" &
  pids+=($!)
done
status=0
survivors=0
for ((process = 0; process < count; ++process)); do
  wait "${pids[process]}"
  got=$?
  wanted=0
  if [[ $killed == *" $process "* ]]; then wanted=137; else survivors=1; fi
  if [ $got -ne $wanted ]; then
    echo "processes.sh: process $process ends with status $got, not $wanted"
    status=1
  fi
done
left=$(find /dev/shm -name "vgpu-comm-${pids[0]}-*")
if [ $survivors = 1 ] && [ -n "$left" ]; then
  echo "processes.sh: left in shared memory: $left"
  status=1
fi
if [ $survivors = 0 ]; then  # the next program that uses NCCL between processes cleans up
  [ -n "$left" ] || { echo "processes.sh: the processes have not met"; status=1; }
  "$program" "NCCL communicators made in groups" || status=1
  left=$(find /dev/shm -name "vgpu-comm-${pids[0]}-*")
  [ -z "$left" ] || { echo "processes.sh: still in shared memory: $left"; status=1; }
fi
exit $status
