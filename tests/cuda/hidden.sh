#!/usr/bin/env bash
# hidden.sh LIBRARIES PROGRAM: runs it, which must not be linked with LIBRARIES (a regular expression), with those that it
# is linked with and those of the system's own folders: as on a machine where the rest of CUDA is not installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

needed=$(ldd "$2")
if grep -E "lib($1)\.so" <<<"$needed"; then
  echo "the program does not start without these"
  exit 1
fi
echo "$needed" | awk '$2 == "=>" { print $3 }' | while read -r library; do ln -s "$library" "$folder"; done
loader=$(echo "$needed" | grep -o '/[^ ]*ld-linux[^ ]*' | head -n 1)
cp "$2" "$folder/program"
# Without the loader's cache, and without the folders that the program names (which has no name to the loader), the
# rest of the toolkit is out of sight.
env -u LD_LIBRARY_PATH -u LD_PRELOAD \
  "$loader" --inhibit-cache --inhibit-rpath "" --library-path "$folder" "$folder/program"
