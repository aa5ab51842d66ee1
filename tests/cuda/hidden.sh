#!/usr/bin/env bash
# hidden.sh PROGRAM: runs it with the libraries that it is linked with and those of the system's own folders, as on
# a machine where nothing of CUDA but the runtime is installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

needed=$(ldd "$1")
if echo "$needed" | grep -E 'lib(nccl|cublas|cublasLt|cuda)\.so'; then
  echo "the program does not start without these"
  exit 1
fi
echo "$needed" | awk '$2 == "=>" { print $3 }' | while read -r library; do ln -s "$library" "$folder"; done
loader=$(echo "$needed" | grep -o '/[^ ]*ld-linux[^ ]*' | head -n 1)
cp "$1" "$folder/program"
# Without the loader's cache, and without the folders that the program names (which has no name to the loader), the
# rest of the toolkit is out of sight.
env -u LD_LIBRARY_PATH -u LD_PRELOAD \
  "$loader" --inhibit-cache --inhibit-rpath "" --library-path "$folder" "$folder/program"
