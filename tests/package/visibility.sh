#!/bin/sh
# visibility.sh FOLDER...: whether each header below the folders exports what it declares, from the #include lines to
# the end of its last namespace, whatever that is; a header without a namespace declares nothing.
set -eu
headers=$(find "$@" -name '*.hpp')
test -n "$headers" || { echo "no headers in $*"; exit 1; }
awk '
  function check() {
    if (first > 0 && !(pushes == 1 && pops == 1 && includes < push && push < first && last < pop)) {
      print file ": the namespace is not between #pragma GCC visibility push(default), after the #include lines, and pop"
      wrong = 1
    }
  }
  FNR == 1 { if (file != "") check(); file = FILENAME; includes = first = last = push = pop = pushes = pops = 0 }
  /^#include/ && pops == 0 { includes = FNR }  # one after the pop, as of a template file, is outside
  /^namespace lockstep/ && first == 0 { first = FNR }
  /^}  \/\/ namespace lockstep/ { last = FNR }
  /^#pragma GCC visibility push\(default\)$/ { push = FNR; ++pushes }
  /^#pragma GCC visibility pop$/ { pop = FNR; ++pops }
  END { check(); exit wrong }
' $headers
