#!/bin/sh
# Gives each fuzzer of a build so many inputs, beginning with its corpus, and says which found something.
#
#   tests/fuzz/run.sh build/fuzz/tests/fuzz 2000000 [NAME...]
#
# What one finds is left in the current folder, as crash-*, timeout-* or oom-*.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 runs=$2
shift 2
if [ $# -eq 0 ]; then
  for fuzzer in "$folder"/fuzz_*; do set -- "$@" "${fuzzer##*/fuzz_}"; done
fi
status=0
for name in "$@"; do
  found=$(mktemp -d)
  if "$folder/fuzz_$name" "-runs=$runs" -max_len=4096 -rss_limit_mb=2048 -timeout=20 "$found" "$here/corpus/$name" >"$found.log" 2>&1; then
    echo "$name: $runs inputs, nothing found"
  else
    echo "$name: something was found"
    tail -30 "$found.log"
    status=1
  fi
  rm -rf "$found" "$found.log"
done
exit $status
