# Sourced by scripts that start workers of this machine, and end them: a folder for their output, and their processes,
# `pids`, which end with the script.
folder=$(mktemp -d)
pids=()
trap 'kill -KILL "${pids[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
failures=0

draw_port() { port=$((10000 + RANDOM % 20000)); }  # worker 0's; the others' follow
config() { # num_workers worker: its TF_CONFIG
  local list= i
  for ((i = 0; i < $1; i++)); do list+="${list:+, }\"127.0.0.1:$((port + i))\""; done
  echo "{\"cluster\": {\"worker\": [$list]}, \"task\": {\"type\": \"worker\", \"index\": $2}}"
}
start() { # num_workers worker command...: in the background; its output is in $folder/WORKER
  TF_CONFIG=$(config "$1" "$2") "${@:3}" >"$folder/$2" 2>&1 &
  pids+=($!)
  disown $!  # the shell says nothing of its end
}

within() { # seconds condition...
  local i
  for ((i = 0; i < $1 * 20; i++)); do
    "${@:2}" && return 0
    sleep 0.05
  done
  return 1
}
says() { grep -qs -- "$2" "$folder/$1"; }  # worker text
has_ended() { ! kill -0 "${pids[$1]}" 2>/dev/null; }
kill_all() { # calls fail for a worker that leaves shared memory behind
  local worker
  kill -KILL "${pids[@]}" 2>/dev/null
  for ((worker = 0; worker < ${#pids[@]}; worker++)); do
    within 10 has_ended $worker
    compgen -G "/dev/shm/lockstep-${pids[$worker]}-*" && fail "worker $worker leaves that behind"
  done
}
