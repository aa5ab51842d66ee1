#!/bin/bash
# train_digits_grows.sh TRAIN_DIGITS [COMMAND...]: two workers train, which COMMAND runs, and a third one joins them.
# They save in the end, bit for bit, what three workers save that go on from the checkpoint at which it came.
set -eu
train_digits=$1
shift
command=(env "$@")
. "$(dirname "$0")/../support/local_workers.sh"

fail() {
  echo "$1"
  tail -n 20 "$folder"/out.*
  exit 1
}
run() { # worker num_workers checkpoints argument...: in the background; its output is in out.WORKER
  TF_CONFIG=$(config "$2" "$1") timeout -k 1 100 "${command[@]}" "$train_digits" --epochs 8 --batch-size 6 \
    --replicas 1 --checkpoints "$3" "${@:4}" >"$folder/out.$1" 2>&1 &
  pids+=($!)
}
status=0
"${command[@]}" "$train_digits" --checkpoints "$folder/alone" --grow >"$folder/out.alone" 2>&1 || status=$?
[ $status -eq 2 ] && grep -q -e "--grow: there is no cluster to join" "$folder/out.alone" || fail "one grows alone"
last=1920
draw_port
run 0 2 "$folder/kept" --grow
run 1 2 "$folder/kept" --grow
for ((i = 0; i < 6000; i++)); do
  compgen -G "$folder/kept/checkpoint-*.safetensors" >/dev/null && break
  sleep 0.01
done
mkdir "$folder/all"
run 2 2 "$folder/kept" --join "127.0.0.1:$port" --address "127.0.0.1:$((port + 2))"
while kill -0 "${pids[0]}" 2>/dev/null; do
  cp -n "$folder"/kept/checkpoint-* "$folder/all" 2>/dev/null || true  # the last five stay, of 240 steps each
  sleep 0.02
done
for worker in 0 1 2; do wait "${pids[$worker]}" || fail "worker $worker has failed"; done
step=$(sed -n 's/.*Going on after epoch .* and step \([0-9]*\), .*/\1/p' "$folder/out.0" | tail -n 1)
[ -n "$step" ] || fail "nobody has joined"
grep -q "Training on 1 replica (CPU:0) in each of 3 workers" "$folder/out.0" || fail "they are not three"

port=$((port + 10)) pids=()
mkdir "$folder/three"
cp "$folder/all/checkpoint-$step.safetensors" "$folder/three/"
for worker in 0 1 2; do run $worker 3 "$folder/three"; done
for worker in 0 1 2; do wait "${pids[$worker]}" || fail "worker $worker of three has failed"; done
cmp "$folder/kept/checkpoint-$last.safetensors" "$folder/three/checkpoint-$last.safetensors"
echo "a third one joined at step $step; equal at $last"
