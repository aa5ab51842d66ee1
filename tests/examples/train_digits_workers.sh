#!/bin/bash
# train_digits_workers.sh TRAIN_DIGITS LAUNCH LAUNCHER: workers with one replica each, started in one way, save bit for
# bit what one process with as many replicas saves, and either goes on from what the other has saved. Workers of two
# replicas go on too; they take the rows of a batch in another order. Only the chief prints.
set -eu
train_digits=$1 launch=$2 launcher=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

train() { # num_workers num_replicas_each num_epochs
  local arguments=("$train_digits" --epochs "$3" --replicas "$2" --require-accuracy 90 --checkpoints "$folder/workers")
  if [ "$1" -eq 1 ]; then "${arguments[@]}"; else "$launch" "$launcher" "$1" "${arguments[@]}"; fi >"$folder/out" 2>&1 || {
    local status=$?
    cat "$folder/out"
    exit $status
  }
  cat "$folder/out"
  for line in "Training on" "epoch *$3/" "Test accuracy"; do
    [ "$(grep -c "$line" "$folder/out")" -eq 1 ] || { echo "not one line has: $line"; exit 1; }
  done
}

train 4 1 1
grep -q "Training on 1 replica (CPU:0) in each of 4 workers" "$folder/out"
train 1 4 2
train 4 1 3
"$train_digits" --epochs 3 --replicas 4 --checkpoints "$folder/one_process" >/dev/null
for step in 23 46 69; do
  cmp "$folder/one_process/checkpoint-$step.safetensors" "$folder/workers/checkpoint-$step.safetensors"
done
train 2 2 4
grep -q "Going on after epoch 3 and step 69" "$folder/out"
