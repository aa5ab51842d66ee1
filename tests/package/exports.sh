#!/bin/sh
# exports.sh LIBRARY: whether it exports what public headers declare, and no more of its own or of other libraries.
set -eu
symbols=$(readelf -W --syms "$1" |
  awk '$5 ~ /^(GLOBAL|WEAK|UNIQUE)$/ && $6 == "DEFAULT" && $7 != "UND" { print $8 }' | c++filt | sort -u)
echo "$symbols" | grep -q '^lockstep::Communicator::create(' || { echo "Communicator::create is not exported"; exit 1; }
internal=$(echo "$symbols" | grep -E 'nlohmann|hwy::|lockstep::host::|lockstep::detail::warn\(' |
  grep -v '^lockstep::host::make_backend()' || true)
test -z "$internal" || { echo "exported, though no public header declares them:"; echo "$internal" | head -n 20; exit 1; }
echo "$(echo "$symbols" | wc -l) symbols"
