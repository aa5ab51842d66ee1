# Runs the program with LOCKSTEP_TRACE, to a file and to a place where no file can be.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LOCKSTEP_TRACE="$folder/of-%p.json" "$1"
grep -q '"name":"all_reduce(sum)"' "$folder"/of-[0-9]*.json
LOCKSTEP_TRACE="$folder/nowhere/file" "$1" 2>"$folder/errors"
grep -q '^lockstep: LOCKSTEP_TRACE: ' "$folder/errors"
env -u LOCKSTEP_TRACE "$1" 2>"$folder/errors"
[ ! -s "$folder/errors" ] && [ "$(ls "$folder" | wc -l)" = 2 ]
