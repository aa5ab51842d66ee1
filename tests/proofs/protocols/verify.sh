#!/bin/sh
# verify.sh MODEL.pml FOLDER holds|breaks CLAIM|- DEFINITION...: all that the model can do is searched, in the folder: for
# its assertions, or for a claim of temporal logic. It must hold, or a planted fault must break it. Prints the number of
# states; with LOCKSTEP_PROOF_VERBOSE=1 also the steps that broke it, or were to.
set -eu
model=$1 folder=$2 expected=$3 claim=$4
shift 4
name=$(basename "$model" .pml)
rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
cp "$model" .
spin -a "$@" "$name.pml" >spin.txt
# Processes that run only under a condition do not go with the partial order reduction.
if [ "$claim" = - ]; then
  ${CC:-cc} -O2 -w -DNOREDUCE -DCOLLAPSE -DMEMLIM=2000 -DSAFETY -DNOCLAIM -o pan pan.c
  ./pan -E -m1000000 >pan.txt 2>&1 || true
else
  ${CC:-cc} -O2 -w -DNOREDUCE -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c
  ./pan -a -N "$claim" -m1000000 >pan.txt 2>&1 || true
fi
grep -E "assertion violated|acceptance cycle \(|errors:|states, stored|out of memory|depth too small" pan.txt || true
if [ "${LOCKSTEP_PROOF_VERBOSE:-}" != "" ] && [ -f "$name.pml.trail" ]; then spin -t -p "$@" "$name.pml"; fi
case $expected in
  holds) grep -q "errors: 0" pan.txt && ! grep -qE "Search not completed|depth too small" pan.txt ;;
  breaks) grep -qE "errors: [1-9]" pan.txt ;;
esac
