#!/bin/bash
# A missing event wait must give a wrong answer under some seeds and a right one under others; the same seed must give
# the same answer; with the wait every seed must be right.
run=$1; program=$2
right=0; wrong=0
for seed in $(seq 1 16); do
  first=$("$run" --seed "$seed" -- "$program" "a consumer that does not wait may see old data" 2>/dev/null | grep -m1 "consumer saw")
  again=$("$run" --seed "$seed" -- "$program" "a consumer that does not wait may see old data" 2>/dev/null | grep -m1 "consumer saw")
  [ "$first" = "$again" ] || { echo "seed $seed is not deterministic"; exit 1; }
  case "$first" in
    "consumer saw 2") right=$((right + 1)) ;;
    "consumer saw 1") wrong=$((wrong + 1)) ;;
    *) echo "unexpected: $first"; exit 1 ;;
  esac
  "$run" --seed "$seed" -- "$program" "a consumer that waits sees the data" >/dev/null 2>&1 || { echo "seed $seed: wrong in spite of the wait"; exit 1; }
done
echo "$right seeds right, $wrong wrong"
[ "$right" -gt 0 ] && [ "$wrong" -gt 0 ]
