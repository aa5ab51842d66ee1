#!/bin/bash
# under_mpi.sh RUN_WORKERS_MPI MPIEXEC WORKERS VICTIM: runs the program `workers` as two processes of MPI's. mpirun calls it
# a failure where a process ends without MPI's end, as one does after an error of MPI, ends the others, and may lose what
# they have said last: they say it into a file. What counts is what the victim says, and the other, if it still can.
set -u
said=$(mktemp)
trap 'rm -f "$said"' EXIT
"$1" "$2" -n 2 bash -c 'exec "$@" >>"$0" 2>&1' "$said" "$3" under_mpi "$4" 2>&1
status=$?
cat "$said"
[ $status -ne 77 ] || exit 77
! grep -q "FAULT" "$said" && grep -q "^left: " "$said" && [ $status -ne 124 ]
