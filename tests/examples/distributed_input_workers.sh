#!/bin/bash
# distributed_input_workers.sh DISTRIBUTED_INPUT LAUNCH LAUNCHER: two workers read the digits rightly, however they are
# started, and with the same result as those of TF_CONFIG. Only the chief prints.
set -eu
result_of() { # launcher
  local status=0
  "$2" "$1" 2 "$3" >"$folder/$1" 2>&1 || status=$?
  cat "$folder/$1"
  [ $status -eq 0 ] || exit $status
  [ "$(wc -l <"$folder/$1")" -eq 1 ] || { echo "not the chief alone has printed"; exit 1; }
  sed 's/^0: //; s/input was late at [0-9]*//' "$folder/$1" >"$folder/result of $1"
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
result_of "$3" "$2" "$1"
result_of tf_config "$2" "$1"
cmp "$folder/result of $3" "$folder/result of tf_config"
