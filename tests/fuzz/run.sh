#!/bin/sh
# Gives each fuzzer of a build so many inputs, beginning with its corpus, and prints a line for it: what it was given, in
# how many seconds, the edges and features that were reached, and the most memory that it had.
#
#   tests/fuzz/run.sh build/fuzz/tests/fuzz 2000000 [NAME...]
#
# What breaks one is left in the current folder, as crash-*, timeout-* or oom-*. With FOUND=FOLDER inputs that reach
# something new stay in FOLDER/NAME, and are where the next run begins.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 runs=$2
shift 2
if [ $# -eq 0 ]; then
  for fuzzer in "$folder"/fuzz_*; do set -- "$@" "${fuzzer##*/fuzz_}"; done
fi
# Freed memory is kept a shorter while, new memory is not filled, and no stacks are kept: twice the inputs in a second.
export ASAN_OPTIONS="quarantine_size_mb=1:malloc_context_size=0:max_malloc_fill_size=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
status=0
for name in "$@"; do
  # Longer inputs are slower, and reach no more.
  case $name in
    address | bench_size | environment | names) max_bytes=64 ;;
    csv | idx | lines | records | worker_meeting) max_bytes=100 ;;
    checkpoint_folder | node_list) max_bytes=256 ;;
    cache | compressed | control_* | dlpack | launcher | *np[yz] | safetensors | tf_*) max_bytes=512 ;;
    checkpoint) max_bytes=1024 ;;
    *) max_bytes=2048 ;;
  esac
  kept=${FOUND:+$FOUND/$name}
  found=${kept:-$(mktemp -d)}
  mkdir -p "$found"
  log=$(mktemp)
  dictionary=$here/dictionaries/$name.txt
  if "$folder/fuzz_$name" "-runs=$runs" "-max_len=$max_bytes" -len_control=0 -rss_limit_mb=2048 -timeout=20 \
      -print_final_stats=1 $(test -f "$dictionary" && echo "-dict=$dictionary") "$found" "$here/corpus/$name" \
      >"$log" 2>&1; then
    sed -n 's/.*DONE *\(cov: [0-9]* ft: [0-9]*\).*/\1/p
            s/^Done \([0-9]* runs in [0-9]* second\).*/\1s/p
            s/^stat::peak_rss_mb: *\([0-9]*\)/peak \1 MB/p' "$log" | tr '\n' ',' | sed "s/^/$name: /; s/,/, /g; s/, \$//"
    echo
  else
    echo "$name: something was found"
    grep -v '^#\|^INFO\|^NEW_FUNC\|redzone\|^  0x\|^=>0x\|^Shadow' "$log" | tail -40
    status=1
  fi
  rm -f "$log"
  test -n "$kept" || rm -rf "$found"
done
exit $status
