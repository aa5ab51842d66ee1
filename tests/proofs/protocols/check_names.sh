#!/bin/sh
# check_names.sh ROOT: the functions that the models' steps stand for, "src/FILE:NAME", are in the sources.
set -eu
cd "$1"
num_wrong=0 num_names=0
for step in $(grep -ohE 'src/[A-Za-z0-9_/]+\.(cpp|hpp):[A-Za-z_0-9]+(::[A-Za-z_0-9]+)*' tests/proofs/protocols/*.pml | sort -u); do
  num_names=$((num_names + 1))
  if ! grep -qE "(^|[^A-Za-z_])${step#*:}( |\(|<|\{|;|\$)" "${step%%:*}"; then
    echo "$step: it is not there" && num_wrong=$((num_wrong + 1))
  fi
done
echo "$num_names names"
[ "$num_names" -gt 0 ] && exit "$num_wrong"
