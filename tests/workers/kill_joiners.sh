#!/bin/bash
# kill_joiners.sh PROGRAM NUM_KILLS CPU|GPU [COMMAND...]: starts 1 to 3 workers, which COMMAND runs, and 1 or 2 that
# join them, kills or stops one of all at a random moment of that, and expects that the others go on as one cluster,
# with right results. Who would join when the chief is lost may end instead, with an error that names the chief.
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

expect() { # condition within 90 seconds: Gloo takes its time to see that a process it connects with is gone
  local i
  for ((i = 0; i < 1800; i++)); do
    "$@" && return 0
    sleep 0.05
  done
  return 1
}
has_ended() { ! kill -0 "${pids[$1]}" 2>/dev/null; }
has_started() { grep -qs '^replicas' "$folder/$1"; }
replicas() { grep '^replicas' "$folder/$1" 2>/dev/null | tail -n 1 | cut -d ' ' -f 2; }
misses_chief() { grep -qs "^error: .*worker 0 (127.0.0.1:$port)" "$folder/$1"; }
# Whether all but the victim work together, but for those who could not join a lost chief.
are_together() {
  local worker together=()
  for ((worker = 0; worker < num_all; worker++)); do
    [ $worker -eq $victim ] && continue
    [ $victim -eq 0 ] && [ $worker -ge $num_workers ] && misses_chief $worker && continue
    together+=($worker)
  done
  for worker in "${together[@]}"; do [ "$(replicas $worker)" = ${#together[@]} ] || return 1; done
}

failures=0
fail() {
  failures=$((failures + 1))
  echo "kill $kill: of $num_workers workers and $((num_all - num_workers)) that join, $victim was sent $signal: $1"
  for ((worker = 0; worker < num_all; worker++)); do
    echo "  $worker: $(tail -n 3 "$folder/$worker" | tr '\n' '|')"
  done
}
for ((kill = 0; kill < num_kills; kill++)); do
  num_workers=$((1 + RANDOM % 3)) signal=KILL silence=5000
  num_all=$((num_workers + 1 + RANDOM % 2))
  victim=$((RANDOM % num_all))
  [ $num_workers -eq 1 ] && [ $victim -eq 0 ] && victim=1  # else nobody is left
  if [ $((RANDOM % 4)) -eq 0 ]; then signal=STOP silence=1000; fi
  port=$((10000 + RANDOM % 20000)) workers=
  for ((worker = 0; worker < num_workers; worker++)); do workers+="${workers:+,}\"127.0.0.1:$((port + worker))\""; done
  pids=()
  rm -f "$folder"/*  # a worker that starts late would seem to have started
  start() { # worker argument...
    TF_CONFIG="{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $1}}" \
      "${command[@]}" "$program" $silence $kind $1 "$folder/stop" "${@:2}" >"$folder/$1" 2>&1 &
    pids+=($!)
    disown $!  # the shell says nothing of its end
  }
  command=("$@")
  [ ${#command[@]} -eq 0 ] && command=(env)
  for ((worker = 0; worker < num_workers; worker++)); do start $worker; done
  for ((worker = 0; worker < num_workers; worker++)); do
    expect has_started $worker || fail "worker $worker does not start"
  done
  for ((worker = num_workers; worker < num_all; worker++)); do
    start $worker "127.0.0.1:$port" "127.0.0.1:$((port + worker))"
  done
  sleep 0.0$((RANDOM % 10))$((RANDOM % 10))
  [ $((RANDOM % 3)) -eq 0 ] && sleep 0.$((RANDOM % 3 + 1))
  kill -$signal "${pids[$victim]}"
  expect are_together || fail "the others do not come together"
  touch "$folder/stop"
  for ((worker = 0; worker < num_all; worker++)); do
    [ $worker -eq $victim ] && continue
    expect has_ended $worker || fail "worker $worker does not end"
    grep -q '^wrong' "$folder/$worker" && fail "worker $worker reads wrong sums"
    grep -q '^done' "$folder/$worker" || { [ $victim -eq 0 ] && misses_chief $worker; } ||
      fail "worker $worker says nothing in the end"
  done
  kill -KILL "${pids[@]}" 2>/dev/null
  for ((worker = 0; worker < num_all; worker++)); do
    expect has_ended $worker
    compgen -G "/dev/shm/lockstep-${pids[$worker]}-*" && fail "worker $worker leaves that behind"
  done
done
echo "$num_kills kills, $failures failures"
[ $failures -eq 0 ]
