#!/bin/bash
# Tests run_workers.sh on small programs.
set -u
script=$(dirname "$0")/run_workers.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failures=0

fail() {
  echo "run_workers_test.sh: $1" >&2
  [ ! -s "$folder/out" ] || sed 's/^/  | /' "$folder/out" >&2
  failures=$((failures + 1))
}
run() { "$script" "$@" >"$folder/out" 2>&1; }
check_status() { [ "$1" -eq "$2" ] || fail "$3: status $1 instead of $2"; }
check_output() { grep -q -- "$1" "$folder/out" || fail "$2: no line with $1"; }

# Whether no process of these ids is running; waits for up to 5 seconds.
check_gone() {
  local what=$1 pid tick
  shift
  [ $# -gt 0 ] || fail "$what: no process has told its id"
  for pid in "$@"; do
    for ((tick = 0; tick < 100; ++tick)); do
      [ -e "/proc/$pid" ] && ! grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null || continue 2
      sleep 0.05
    done
    fail "$what: process $pid is still running"
  done
}
told_ids() { sed -n 's/.*pid \([0-9]*\)$/\1/p' "$folder/out"; }

run -n 3 -r 2 sh -c 'echo "$TF_CONFIG"; echo "replicas $LOCKSTEP_TEST_REPLICAS $1" >&2' program argument
check_status $? 0 "three workers"
for worker in 0 1 2; do
  check_output "^$worker: .*\"index\": $worker}}\$" "three workers"
  check_output "^$worker: replicas 2 argument\$" "three workers"
done
[ "$(grep -o '127\.0\.0\.1:[0-9]*' "$folder/out" | sort -u | wc -l)" -eq 3 ] || fail "the workers' addresses are not three"
[ "$(grep -o 'worker": \[.*\]' "$folder/out" | sort -u | wc -l)" -eq 1 ] || fail "the workers know different clusters"

# Worker 1 waits for what worker 0 writes in the folder that they share.
run -n 2 --time-limit 20 sh -c '
  mkfifo "$LOCKSTEP_TEST_FOLDER/pipe" 2>/dev/null
  case "$TF_CONFIG" in
    *"index\": 0"*) echo "$LOCKSTEP_TEST_FOLDER" >"$LOCKSTEP_TEST_FOLDER/pipe" ;;
    *) read -r line <"$LOCKSTEP_TEST_FOLDER/pipe"; echo "read $line" ;;
  esac'
check_status $? 0 "two workers that meet"
check_output '^1: read /' "two workers that meet"
[ ! -e "$(sed -n 's/^1: read //p' "$folder/out")" ] || fail "the workers' folder is left"

run -n 3 sh -c 'case "$TF_CONFIG" in *"index\": 1"*) exit 7 ;; esac; echo "pid $$"; exec sleep 1000'
check_status $? 7 "a worker that fails"
check_output 'worker 1 has ended with status 7' "a worker that fails"
for pid in $(told_ids); do check_gone "a worker that fails" "$pid"; done

run -n 2 sh -c 'kill -SEGV $$'
check_status $? 139 "workers that crash"

run -n 2 --time-limit 1 sh -c 'trap "" TERM; echo "pid $$"; while :; do sleep 1000; done'
check_status $? 124 "workers that hang"
check_output 'workers 0 1 have not ended within 1 s' "workers that hang"
check_gone "workers that hang" $(told_ids)

run -n 2 sh -c 'sleep 1000 & echo "pid $!"; setsid sh -c "echo pid \$\$; exec sleep 1000" & echo left'
check_status $? 3 "workers that leave processes"
check_output "have left behind: process [0-9]* (sleep 1000 )" "workers that leave processes"
check_gone "workers that leave processes" $(told_ids)

run -n 2 sh -c ': >"/dev/shm/lockstep-$$-test"; echo "pid $$"'
check_status $? 3 "workers that leave shared memory"
for pid in $(told_ids); do
  check_output "have left behind:.* /dev/shm/lockstep-$pid-test" "workers that leave shared memory"
  rm "/dev/shm/lockstep-$pid-test"
done

# What the script is told, its workers are.
for signal in TERM KILL; do
  mkfifo "$folder/$signal"
  "$script" -n 2 sh -c 'echo "pid $$"; exec sleep 1000' >"$folder/$signal" 2>&1 &
  exec 3<"$folder/$signal"
  : >"$folder/out"
  for _ in 1 2; do IFS= read -r line <&3 && echo "$line" >>"$folder/out"; done
  kill -$signal $!
  wait $! 2>/dev/null
  status=$?
  [ $signal = KILL ] || check_status $status 143 "a script that is told to end"
  check_gone "a script that gets SIG$signal" $(told_ids)
  exec 3<&-
done

for arguments in "" "-n 2" "-n 0 true" "-n x true" "-n 2 -r 0 true" "-q true" "-n"; do
  run $arguments
  check_status $? 2 "the arguments '$arguments'"
done

[ "$failures" -eq 0 ] && echo "run_workers.sh does what it says"
exit $((failures > 0))
