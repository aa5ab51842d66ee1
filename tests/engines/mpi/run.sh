#!/bin/sh
# run.sh MPIEXEC PROGRAM N CASE [STATUS]: runs a case on N processes, all of which must pass, and the job must end with the
# status, 0 unless told; "any": whatever it is.
set -eu
"$1" --version 2>&1 | grep -q "Open MPI\|OpenRTE" || { echo "skipped: $1 is not Open MPI's"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout -k 5 150 "$1" -np "$3" --oversubscribe --bind-to none "$2" "$4" "$folder" >"$folder/output" 2>&1 || status=$?
cat "$folder/output"
test "$(grep -c '^process [0-9]*: passed' "$folder/output")" -eq "$3"
test "${5:-0}" = any || test "$status" -eq "${5:-0}"
