#!/bin/bash
# soak.sh PROGRAM SECONDS [PAUSE_MS]: trains for so long, with input and asynchronous checkpoints, in one process that
# lives on, and beside it with 3 workers, of which one is killed again and again, after which all start anew. Fails if
# memory, threads, descriptors or mappings of the first grow, if a worker's end is not the loss of another, if a step has
# two results, or if files, shared memory or processes are left.
set -u
program=$1 seconds=$2 pause=${3:-20}
num_workers=3
. "$(dirname "$0")/../support/local_workers.sh"
trap 'kill -KILL "${pids[@]}" $long 2>/dev/null; rm -rf "$folder"' EXIT
mkdir "$folder/long" "$folder/workers"
fail() {
  failures=$((failures + 1))
  echo "$1"
}

"$program" "$folder/long" "$seconds" "$pause" >"$folder/long/log" 2>&1 &
long=$!
end=$((SECONDS + seconds)) kills=0 starts=0
while [ $SECONDS -lt $end ]; do
  starts=$((starts + 1))
  draw_port
  pids=()
  [ -f "$folder/workers/rows.csv" ] || cp "$folder/long/rows.csv" "$folder/workers/" 2>/dev/null || { sleep 0.2; continue; }
  for ((worker = 0; worker < num_workers; worker++)); do
    start $num_workers $worker "$program" "$folder/workers" $((end - SECONDS)) "$pause"
  done
  # A worker that never comes is waited for without a limit.
  for ((worker = 0; worker < num_workers; worker++)); do
    within 60 says $worker '^started' ||
      fail "start $starts: worker $worker does not start: $(tail -n 1 "$folder/$worker")"
  done
  sleep $((RANDOM % 6)).$((RANDOM % 10))
  victim=$((RANDOM % num_workers))
  kill -KILL "${pids[$victim]}" 2>/dev/null && kills=$((kills + 1))
  for ((worker = 0; worker < num_workers; worker++)); do
    within 30 has_ended $worker || fail "start $starts: worker $worker goes on without worker $victim"
    [ $worker -eq $victim ] || [ $SECONDS -ge $end ] || says $worker "^lost: .*worker $victim " ||
      fail "start $starts: worker $victim was killed, and worker $worker says: $(tail -n 1 "$folder/$worker")"
  done
  kill_all
done
wait $long || fail "the process that lives on: $(tail -n 3 "$folder/long/log")"
tail -n 2 "$folder/long/log"

for part in long workers; do
  grep -E '^[0-9]+ [0-9a-f]+$' "$folder/$part/steps" | sort -u >"$folder/results"
  twice=$(cut -d' ' -f1 "$folder/results" | uniq -d | wc -l)
  [ "$twice" -eq 0 ] || fail "$part: $twice steps have two results"
  last=$(cut -d' ' -f1 "$folder/results" | sort -n | tail -n 1)
  [ "$(wc -l <"$folder/results")" -eq "${last:-0}" ] && [ "${last:-0}" -gt 0 ] || fail "$part: steps are missing before $last"
  # A kill may leave one file that was being written.
  [ "$(ls -A "$folder/$part/checkpoints" | wc -l)" -le 4 ] || fail "$part: $(ls -A "$folder/$part/checkpoints")"
  echo "$part: $last steps, $(grep -cE '^[0-9]+ ' "$folder/$part/steps") with those made again"
done
# What both have made is the same work on other numbers of replicas; of each alone all starts agree.
echo "$seconds s, $starts starts of $num_workers workers, $kills kills, $failures failures"
[ $failures -eq 0 ]
