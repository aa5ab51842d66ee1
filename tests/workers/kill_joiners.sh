#!/bin/bash
# kill_joiners.sh PROGRAM NUM_KILLS CPU|GPU [COMMAND...]: starts 1 to 3 workers, which COMMAND runs, and 1 or 2 that
# join them, kills or stops one of all at a random moment of that, and expects that the others go on as one cluster,
# with right results. Who would join when the chief is lost may end instead, with an error that names the chief.
set -u
program=$1 num_kills=$2 kind=$3
shift 3
command=(env "$@")
limit=60  # seconds
. "$(dirname "$0")/../support/local_workers.sh"

replicas() { grep '^replicas' "$folder/$1" 2>/dev/null | tail -n 1 | cut -d ' ' -f 2; }
misses_chief() { says $1 "^error: .*worker 0 (127.0.0.1:$port)"; }
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
  draw_port
  pids=()
  rm -f "$folder"/*  # a worker that starts late would seem to have started
  run() { # worker argument...
    start $num_workers $1 "${command[@]}" "$program" $silence $kind $1 "$folder/stop" "${@:2}"
  }
  for ((worker = 0; worker < num_workers; worker++)); do run $worker; done
  for ((worker = 0; worker < num_workers; worker++)); do
    within $limit says $worker '^replicas' || fail "worker $worker does not start"
  done
  for ((worker = num_workers; worker < num_all; worker++)); do
    run $worker "127.0.0.1:$port" "127.0.0.1:$((port + worker))"
  done
  sleep 0.0$((RANDOM % 10))$((RANDOM % 10))
  [ $((RANDOM % 3)) -eq 0 ] && sleep 0.$((RANDOM % 3 + 1))
  kill -$signal "${pids[$victim]}"
  within $limit are_together || fail "the others do not come together"
  touch "$folder/stop"
  for ((worker = 0; worker < num_all; worker++)); do
    [ $worker -eq $victim ] && continue
    within $limit has_ended $worker || fail "worker $worker does not end"
    says $worker '^wrong' && fail "worker $worker is wrong: $(grep '^wrong' "$folder/$worker")"
    says $worker '^done' || { [ $victim -eq 0 ] && misses_chief $worker; } ||
      fail "worker $worker says nothing in the end"
  done
  kill_all
done
echo "$num_kills kills, $failures failures"
[ $failures -eq 0 ]
