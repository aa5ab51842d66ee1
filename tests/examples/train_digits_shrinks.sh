#!/bin/bash
# train_digits_shrinks.sh TRAIN_DIGITS [COMMAND...]: of three workers, which COMMAND runs, one is killed while it trains. The
# others go on without it, and save in the end, bit for bit, what two workers save that go on from the same checkpoint.
set -eu
train_digits=$1
shift
. "$(dirname "$0")/../support/local_workers.sh"

fail() {
  echo "$1"
  tail -n 20 "$folder"/out.*
  exit 1
}
start_all() { # num_workers checkpoints: in the background; their output is in out.INDEX
  local i
  draw_port
  pids=()
  for ((i = 0; i < $1; i++)); do
    TF_CONFIG=$(config "$1" $i) timeout -k 1 100 "${command[@]}" "$train_digits" --epochs 30 --replicas 1 \
      --checkpoints "$2" --save-every 10 --shrink >"$folder/out.$i" 2>&1 &
    pids+=($!)
  done
}
command=(env "$@")

start_all 3 "$folder/three"
for ((i = 0; i < 6000; i++)); do
  compgen -G "$folder/three/checkpoint-*.safetensors" >/dev/null && break
  sleep 0.01
done
killed=$(pgrep -P "${pids[1]}") || fail "worker 1 ended before it was killed"
kill -STOP "$killed"
sleep 0.5  # all wait for worker 1, and have written what they save
mkdir "$folder/kept"
cp "$folder"/three/checkpoint-*.safetensors "$folder/kept"  # of those of a folder the last five stay
kill -KILL "$killed"
for worker in 0 2; do wait "${pids[$worker]}" || fail "worker $worker has failed"; done
grep -q "worker 1 (127.0.0.1:[0-9]*) was lost" "$folder/out.2" || fail "the lost worker is not named"
step=$(sed -n 's/.*Going on after epoch .* and step \([0-9]*\), .*/\1/p' "$folder/out.0" | tail -n 1)
[ -n "$step" ] || fail "nothing went on"
grep -q "Training on 1 replica (CPU:0) in each of 2 workers" "$folder/out.0" || fail "the others are not two"

last=690
mkdir "$folder/two"
cp "$folder/kept/checkpoint-$step.safetensors" "$folder/two/"
start_all 2 "$folder/two"
for worker in 0 1; do wait "${pids[$worker]}" || fail "worker $worker of two has failed"; done
cmp "$folder/three/checkpoint-$last.safetensors" "$folder/two/checkpoint-$last.safetensors"
echo "went on from step $step to $last"
