#!/bin/bash
# under_mpi.sh RUN_WORKERS_MPI MPIEXEC WORKERS VICTIM: runs the program `workers` as two processes of MPI's. mpirun calls it
# a failure where a process ends without MPI's end, as one does after an error of MPI, and ends the others: what counts is
# what the victim says, and the other, if it still can.
set -u
output=$("$1" "$2" -n 2 "$3" under_mpi "$4" 2>&1)
status=$?
printf '%s\n' "$output"
[ $status -ne 77 ] || exit 77
! grep -q "FAULT" <<<"$output" && grep -q "^left: " <<<"$output" && [ $status -ne 124 ]
