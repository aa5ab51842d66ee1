#!/bin/sh
# snippets.sh FOLDER COMPILER FLAG...: whether every C++ snippet of the README.md files below FOLDER compiles.
# A snippet is a block fenced by ```cpp. Each is the body of a function of its own, or, if it has a main, of a
# namespace, after its #include lines and given.hpp, which declares what snippets take for granted.
set -eu
folder=$1
shift
cd "$folder"
files=$(find . \( -name 'build*' -o -name '.?*' \) -prune -o -name README.md -print | sed 's|^./||' | sort)
program=$(mktemp --suffix=.cpp)
trap 'rm -f "$program"' EXIT
{
  echo '#include "given.hpp"'
  awk '
    FNR == 1 && inside { exit 1 }
    !inside && /^ *```cpp *$/ { inside = 1; first = FNR + 1; body = ""; has_main = 0; next }
    inside && /^ *``` *$/ {
      inside = 0
      print has_main ? "namespace snippet_" ++n " {" : "[[maybe_unused]] static void snippet_" ++n "() {"
      printf "#line %d \"%s\"\n%s}\n", first, FILENAME, body
      next
    }
    inside && /^ *#include/ { print; body = body "\n"; next }
    inside { body = body $0 "\n"; if (/ main\(/) has_main = 1 }
    END { if (inside || n == 0) exit 1; print n " snippets" > "/dev/stderr" }
  ' $files
} > "$program" || { echo "no snippets, or one that does not end, in" $files; exit 1; }
"$@" "$program"
