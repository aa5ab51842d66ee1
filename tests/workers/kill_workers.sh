#!/bin/bash
# kill_workers.sh PROGRAM NUM_KILLS CPU|GPU [COMMAND...]: starts 2 to 4 workers, which COMMAND runs, kills or stops one of
# them at a random moment, and expects that each of the others ends within some seconds, with an error that names it, and
# has read no wrong result.
set -u
program=$1 num_kills=$2 kind=$3
shift 3
folder=$(mktemp -d)
pids=()
end() {
  kill -KILL "${pids[@]}" 2>/dev/null
  rm -rf "$folder"
}
trap end EXIT

expect() { # condition within 10 seconds
  local i
  for ((i = 0; i < 200; i++)); do
    "$@" && return 0
    sleep 0.05
  done
  return 1
}
has_started() { grep -qs '^started' "$folder/$1"; }
has_ended() { ! kill -0 "${pids[$1]}" 2>/dev/null; }

failures=0
fail() {
  failures=$((failures + 1))
  echo "kill $kill: of $num_workers workers, worker $victim was sent $signal; worker $worker $1: $(tail -n 1 "$folder/$worker")"
}
for ((kill = 0; kill < num_kills; kill++)); do
  num_workers=$((2 + RANDOM % 3)) victim=$((RANDOM % num_workers)) signal=KILL silence=5000
  if [ $((RANDOM % 4)) -eq 0 ]; then signal=STOP silence=1000; fi
  port=$((10000 + RANDOM % 20000)) workers=
  for ((worker = 0; worker < num_workers; worker++)); do workers+="${workers:+,}\"127.0.0.1:$((port + worker))\""; done
  pids=()
  rm -f "$folder"/*  # a worker that starts late would seem to have started
  for ((worker = 0; worker < num_workers; worker++)); do
    TF_CONFIG="{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $worker}}" \
      "$@" "$program" $silence $kind >"$folder/$worker" 2>&1 &
    pids+=($!)
    disown $!  # the shell says nothing of its end
  done
  for ((worker = 0; worker < num_workers; worker++)); do expect has_started $worker || fail "does not start"; done
  sleep 0.$((RANDOM % 30 + 10))
  kill -$signal "${pids[$victim]}"
  for ((worker = 0; worker < num_workers; worker++)); do
    [ $worker -eq $victim ] && continue
    expect has_ended $worker || fail "goes on"
    grep -q "^lost: .*worker $victim (127.0.0.1:$((port + victim))) was lost" "$folder/$worker" || fail "says"
    ! grep -q "^wrong" "$folder/$worker" || fail "reads"
  done
  kill -KILL "${pids[@]}" 2>/dev/null
  for ((worker = 0; worker < num_workers; worker++)); do
    expect has_ended $worker
    compgen -G "/dev/shm/lockstep-${pids[$worker]}-*" && fail "leaves that behind"
  done
done
echo "$num_kills kills, $failures failures"
[ $failures -eq 0 ]
