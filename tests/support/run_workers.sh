#!/bin/bash
# run_workers.sh -n P [-r R] [--time-limit S] PROGRAM ARGUMENT...
#
# Starts P copies of a program as the workers of a cluster: TF_CONFIG names their addresses, free ports of 127.0.0.1,
# and each one's index; LOCKSTEP_TEST_REPLICAS is R (1 unless told), LOCKSTEP_TEST_FOLDER an empty folder that they
# share. Each line of their output begins with the worker's index. In in_network_namespaces.sh each worker is on a host
# of its own.
#
# The exit status is 0 where all exit with 0, else that of the first that did not, soon after which the others are
# killed; 124 after S seconds (300 unless told); 143 where this script is told to end; 3 where workers that have exited
# with 0 have left processes or shared memory behind. Workers are told to end by SIGTERM, and have two seconds for it; what
# they have started ends with them.
set -u

usage() {
  echo "usage: run_workers.sh -n P [-r R] [--time-limit S] PROGRAM ARGUMENT..." >&2
  exit 2
}

num_workers=
replicas=1
time_limit=300
while [ $# -gt 0 ]; do
  case "$1" in
    -n) num_workers=${2-} ;;
    -r) replicas=${2-} ;;
    --time-limit) time_limit=${2-} ;;
    -*) usage ;;
    *) break ;;
  esac
  shift 2 || usage
done
for number in "$num_workers" "$replicas" "$time_limit"; do
  [[ "$number" =~ ^[1-9][0-9]*$ ]] || usage
done
[ $# -gt 0 ] || usage

# Ports that no socket has, below those that the system gives to connections.
free_ports() {
  local taken=" " hex port=$((10000 + RANDOM % 20000)) found=0
  while read -r hex; do taken+="$((16#$hex)) "; done < <(
    awk 'FNR > 1 { sub(/.*:/, "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null)
  while [ "$found" -lt "$1" ]; do
    if [[ "$taken" != *" $port "* ]]; then
      echo "$port"
      found=$((found + 1))
    fi
    port=$((port + 1))
  done
}

# Also where this script is killed, its workers are.
guard=()
if command -v setpriv >/dev/null; then guard=(setpriv --pdeathsig KILL); fi

running=()  # process ids of the workers that have not ended
started=()  # of all
folder=
pipes=

# The workers, and what they have started, which has their folder in its environment.
alive() {
  local pid
  for pid in "${running[@]}"; do kill -0 "$pid" 2>/dev/null && echo "$pid"; done
  grep -lsz "^LOCKSTEP_TEST_FOLDER=$folder\$" /proc/[0-9]*/environ | tr -dc '0-9\n'
}

# What workers leave that have ended.
left_behind() {
  local pid tick
  for ((tick = 0; tick < 20; ++tick)); do
    [ -n "$(alive)" ] || break
    sleep 0.05
  done
  for pid in $(alive); do echo "process $pid ($(tr '\0' ' ' <"/proc/$pid/cmdline"))"; done 2>/dev/null
  for pid in "${started[@]}"; do compgen -G "/dev/shm/lockstep-$pid-*"; done
}

end_all() {
  trap '' TERM INT HUP
  local tick left
  for ((tick = 0; tick < 200; ++tick)); do
    left=$(alive)
    [ -n "$left" ] || break
    [ "$tick" -ne 0 ] || kill -TERM $left 2>/dev/null
    [ "$tick" -lt 40 ] || kill -KILL $left 2>/dev/null
    sleep 0.05
  done
  wait
  rm -rf "$folder" "$pipes"
}
trap end_all EXIT
trap 'exit 143' TERM INT HUP

folder=$(mktemp -d)
pipes=$(mktemp -d)
addresses=
if [ -n "${LOCKSTEP_TEST_HOSTS:-}" ]; then
  for ((host = 1; host <= num_workers; ++host)); do addresses+="${addresses:+, }\"10.0.0.$host:2222\""; done
else
  for port in $(free_ports "$num_workers"); do addresses+="${addresses:+, }\"127.0.0.1:$port\""; done
fi
there=()
for ((worker = 0; worker < num_workers; ++worker)); do
  [ -z "${LOCKSTEP_TEST_HOSTS:-}" ] || there=(ip netns exec "host$worker")
  mkfifo "$pipes/$worker"
  (trap '' TERM INT HUP; exec sed -u "s/^/$worker: /") <"$pipes/$worker" &
  TF_CONFIG="{\"cluster\": {\"worker\": [$addresses]}, \"task\": {\"type\": \"worker\", \"index\": $worker}}" \
    LOCKSTEP_TEST_REPLICAS=$replicas LOCKSTEP_TEST_FOLDER=$folder \
    setsid "${guard[@]}" "${there[@]}" "$@" >"$pipes/$worker" 2>&1 </dev/null &
  running[worker]=$!
  started+=($!)
done
result=0
deadline=$((SECONDS + time_limit))
while [ ${#running[@]} -gt 0 ]; do
  for worker in "${!running[@]}"; do
    kill -0 "${running[worker]}" 2>/dev/null && continue
    wait "${running[worker]}"
    status=$?
    unset "running[worker]"
    [ "$status" -ne 0 ] || continue
    echo "run_workers.sh: worker $worker has ended with status $status" >&2
    [ "$result" -eq 0 ] || continue
    result=$status
    deadline=$((SECONDS + 1))  # for the others' last words
  done
  if [ "$SECONDS" -gt "$deadline" ]; then
    if [ "$result" -eq 0 ]; then
      echo "run_workers.sh: workers ${!running[*]} have not ended within $time_limit s" >&2
      result=124
    fi
    break
  fi
  sleep 0.02
done
if [ "$result" -eq 0 ]; then
  left=$(left_behind)
  if [ -n "$left" ]; then
    echo "run_workers.sh: the workers have left behind:" $left >&2
    result=3
  fi
fi
exit "$result"
