#!/bin/sh
# output.sh TEXT PROGRAM [ARGUMENT...]: whether the program prints what the file TEXT says, in a folder of its own. Lines
# may begin with a worker's index.
set -eu
text=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$@" >printed
sed 's/^[0-9]*: //' printed | diff -u "$text" -
