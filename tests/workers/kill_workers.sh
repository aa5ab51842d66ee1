#!/bin/bash
# kill_workers.sh PROGRAM NUM_KILLS CPU|GPU [COMMAND...]: starts 2 to 4 workers, which COMMAND runs, kills or stops one of
# them at a random moment, and expects that each of the others ends within some seconds, with an error that names it, and
# has read no wrong result.
set -u
program=$1 num_kills=$2 kind=$3
shift 3
command=(env "$@")
. "$(dirname "$0")/../support/local_workers.sh"

fail() {
  failures=$((failures + 1))
  echo "kill $kill: of $num_workers workers, worker $victim was sent $signal; $1: $(tail -n 1 "$folder/$worker")"
}
for ((kill = 0; kill < num_kills; kill++)); do
  num_workers=$((2 + RANDOM % 3)) victim=$((RANDOM % num_workers)) signal=KILL silence=5000
  if [ $((RANDOM % 4)) -eq 0 ]; then signal=STOP silence=1000; fi
  draw_port
  pids=()
  rm -f "$folder"/*  # a worker that starts late would seem to have started
  for ((worker = 0; worker < num_workers; worker++)); do
    start $num_workers $worker "${command[@]}" "$program" $silence $kind
  done
  for ((worker = 0; worker < num_workers; worker++)); do
    within 10 says $worker '^started' || fail "worker $worker does not start"
  done
  sleep 0.$((RANDOM % 30 + 10))
  kill -$signal "${pids[$victim]}"
  for ((worker = 0; worker < num_workers; worker++)); do
    [ $worker -eq $victim ] && continue
    within 10 has_ended $worker || fail "worker $worker goes on"
    says $worker "^lost: .*worker $victim (127.0.0.1:$((port + victim))) was lost" || fail "worker $worker says"
    ! says $worker '^wrong' || fail "worker $worker reads"
  done
  kill_all
done
echo "$num_kills kills, $failures failures"
[ $failures -eq 0 ]
