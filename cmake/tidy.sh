#!/bin/sh
# Runs clang-tidy on the library's C++ sources, with the checks of .clang-tidy.
#
#   cmake/tidy.sh BUILD [COMMITS]
#
# BUILD must have compile_commands.json, which every preset writes. COMMITS limits the run to the sources that so many
# last commits changed.
set -eu
cd "$(dirname "$0")/.."
build=$1
commits=${2:-}

if [ -n "$commits" ]; then
  since=$(git rev-list --max-count="$commits" HEAD | tail -n 1)
  files=$(git diff --name-only --diff-filter=d "$since" HEAD -- 'src/*.cpp')
else
  files=$(git ls-files 'src/*.cpp')
fi
echo "tidy: $(echo "$files" | grep -c .) of $(git ls-files 'src/*.cpp' | wc -l) sources"
[ -n "$files" ] || exit 0
echo "$files" | xargs -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet 2>/dev/null
