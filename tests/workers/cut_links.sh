#!/bin/bash
# cut_links.sh ENDLESS_WORKER CASE: in in_network_namespaces.sh, starts workers on several hosts, cuts links between them,
# and expects that each worker says who is lost. CASE is one of the functions below.
set -u
program=$1
. "$(dirname "$0")/../support/local_workers.sh"  # of which says, config and start are other ones here
inputs=()
fail() {
  failures=$((failures + 1))
  echo "$*"
  tail -n 3 "$folder"/out*
}

says() { grep -q -- "$2" "$folder/out$1"; }
expect() { within 20 says "$1" "$2" || fail "worker $1 does not say: $2"; }  # worker text
address() { echo "10.0.0.$(($1 + 1)):2222"; }
silent() { echo "^lost: .*worker $1 ($(address $1)) was lost: it was silent for 0.3 s"; }
expect_end() { # worker status
  local status
  within 10 has_ended "$1" || fail "worker $1 goes on"
  wait "${pids[$1]}"
  status=$?
  [ $status -eq "$2" ] || fail "worker $1 ends with status $status"
}

config() { # num_workers worker [address...]
  local workers= worker list=("${@:3}")
  for ((worker = 0; worker < $1; worker++)); do workers+="${workers:+, }\"${list[worker]:-$(address $worker)}\""; done
  echo "{\"cluster\": {\"worker\": [$workers]}, \"task\": {\"type\": \"worker\", \"index\": $2}}"
}
start() { # worker TF_CONFIG silence_ms [start_ms]
  mkfifo "$folder/in$1"
  TF_CONFIG=$2 LOCKSTEP_HOST_ID="host $1" ip netns exec "host$1" "$program" "$3" CPU "${@:4}" \
    <"$folder/in$1" >"$folder/out$1" 2>&1 &
  pids[$1]=$!
  exec {inputs[$1]}>"$folder/in$1"
}
start_all() { # num_workers
  local worker
  for ((worker = 0; worker < $1; worker++)); do start $worker "$(config "$1" $worker)" 300; done
  for ((worker = 0; worker < $1; worker++)); do expect $worker "^started"; done
  sleep 0.$((RANDOM % 30 + 10))  # anywhere in a step
}
begin_anew() { # num_workers worker...
  local worker
  for worker in "${@:2}"; do config "$1" "$worker" >&"${inputs[$worker]}"; done
}
expect_sums() { # num_workers
  local worker
  for ((worker = 0; worker < $1; worker++)); do expect "$worker" "^reduced over $(($1 * 2)) replicas"; done
}
end_all() { # status of each worker: 0 unless told
  local worker input statuses=("$@")
  for input in "${inputs[@]}"; do exec {input}>&-; done  # the last cluster was begun
  for worker in "${!pids[@]}"; do expect_end "$worker" "${statuses[worker]:-0}"; done
}
cut_off() { # worker worker: the second one hears nothing of the first
  ip -n "host$1" neigh replace "10.0.0.$(($2 + 1))" lladdr 02:00:00:00:00:01 nud permanent dev eth0
}

both_are_silent() {
  expect 0 "$(silent 1)"
  expect 1 "$(silent 0)"
  end_all
}
case_link_goes_down() {
  start_all 2
  ip link set link1 down
  both_are_silent
}
case_packets_vanish() {
  start_all 2
  ip link set link1 nomaster
  both_are_silent
}
# Gloo's connection may be the first to say so, when worker 0 closes it.
case_worker_0_hears_nothing_of_another() {
  start_all 2
  cut_off 1 0
  expect 0 "$(silent 1)"
  expect 1 "^lost: .*\(worker [01] (.*) was lost\|process 0 is lost\)"
  end_all
}
case_a_worker_hears_nothing_of_worker_0() {
  start_all 2
  cut_off 0 1
  expect 0 "^lost: .*\(worker [01] (.*) was lost\|process 1 is lost\)"
  expect 1 "$(silent 0)"
  end_all
}

# Worker 0 hears of both. Of two workers the one to which the other has connected finds out.
others_find_out() {
  local worker
  for worker in 0 1 2; do expect $worker "^lost: .*worker [12] (.*) could not go on: .* process [12] is lost"; done
  end_all
}
case_two_others_hear_nothing_of_each_other() {
  start_all 3
  cut_off 1 2
  cut_off 2 1
  others_find_out
}
case_one_other_hears_nothing_of_another() {
  start_all 3
  cut_off 1 2
  others_find_out
}
case_two_others_cannot_begin() {
  local worker
  cut_off 1 2
  cut_off 2 1
  for worker in 0 1 2; do start $worker "$(config 3 $worker)" 300; done
  expect 0 "^another error: .*process [12] has failed: .* cannot reach another .*10.0.0.[23]"
  for worker in 1 2; do expect $worker "^another error: .*process [12] cannot reach another .*10.0.0.[23]"; done
  end_all 1 1 1
}

case_a_link_comes_back() {
  local worker before
  listening() { ip netns exec host0 awk '$2 ~ /:08AE$/ && $4 == "0A" { print $10 }' /proc/net/tcp; }
  listens_anew() { [ -n "$(listening)" ] && [ "$(listening)" != "$before" ]; }
  start_all 3
  ip link set link2 nomaster
  for worker in 0 1; do expect $worker "$(silent 2)"; done
  expect 2 "$(silent 0)"
  begin_anew 2 1 0
  expect_sums 2
  ip link set link2 master br0
  before=$(listening)
  begin_anew 3 1 0
  within 20 listens_anew || fail "worker 0 does not begin anew"
  begin_anew 3 2
  expect_sums 3
  end_all
}

case_worker_0_has_another_address() {
  local worker
  for worker in 0 1; do start $worker "$(config 2 $worker 10.0.0.9:2222)" 300 1000; done
  expect 0 "Worker 0 cannot listen on '10.0.0.9:2222': Cannot assign requested address"
  expect 1 "within 1 s worker 0 (10.0.0.9:2222) could not be reached"
  end_all 1 1
}
case_another_worker_has_another_address() {
  local worker
  for worker in 0 1; do start $worker "$(config 2 $worker 10.0.0.1:2222 10.0.0.9:2222)" 300; done
  expect 0 "^another error: .*worker 1 (10.0.0.9:2222) has failed: .*\"10.0.0.9\" is not a name"
  expect 1 "starting the engine gloo: \"10.0.0.9\" is not a name or address of this host"
  end_all 1 1
}

declare -F "case_$2" >/dev/null || { echo "there is no case $2"; exit 2; }
"case_$2"
[ $failures -eq 0 ]
