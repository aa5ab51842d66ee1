#!/bin/bash
# seeds.sh VGPU_RUN PROGRAM NUM_SEEDS [FIRST]: runs PROGRAM's test cases on 1, 2, 3, 4 and 8 virtual GPUs in turn, with and
# without hardware's rules, each case with a seed of its own, until so many seeds have been used. What fails can be run
# again: LOCKSTEP_TEST_FIRST_SEED=SEED VGPU_RUN -n GPUS PROGRAM "the case".
set -u
vgpu_run=$1 program=$2 num_seeds=$3 first=${4:-1}
seeds=0 runs=0 failures=0
output=$(mktemp)
trap 'rm -f "$output"' EXIT
for ((runs = 0; seeds < num_seeds; runs++)); do
  gpus=(2 4 3 8 1) options=("--strict all --leakcheck" "--racecheck --leakcheck")
  gpus=${gpus[runs % 5]} options=${options[runs % 2]}
  # shellcheck disable=SC2086
  LOCKSTEP_TEST_FIRST_SEED=$((first + seeds)) timeout 1800 \
    "$vgpu_run" -n $gpus --deadlock-ms 20000 $options -- "$program" >"$output" 2>&1
  status=$?
  if [ $status -ne 0 ]; then
    failures=$((failures + 1))
    echo "--- seeds from $((first + seeds)) on $gpus GPUs, $options, ended with status $status"
    grep -E '^seed |^vgpu:|^lockstep:' "$output" | head -n 40
    tail -n 20 "$output"
  fi
  used=$(sed -nE 's/^([0-9]+) seeds$/\1/p' "$output")
  seeds=$((seeds + ${used:-1}))
  echo "$seeds seeds, $((runs + 1)) runs of all cases, $failures with findings"
done
[ $failures -eq 0 ]
