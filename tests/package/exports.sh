#!/bin/sh
# exports.sh check|update|leaks LIST [SECTION LIBRARY]...: whether the libraries, archives or shared, export what the
# sections of LIST say, as g++ compiles them. host is liblockstep without CUDA, cuda what CUDA adds to it, and mpi and
# gloo are the engines' libraries. Strong symbols only: what is inline the user's compiler makes. `leaks` does not
# compare, and finds, as the others do, what no public header declares.
set -eu
export LC_ALL=C
action=$1 list=$2
shift 2

# symbols LIBRARY BINDINGS: those that it defines and does not hide.
symbols() {
  readelf -W --syms "$1" | awk -v bindings="$2" '
    index(bindings, $5) && $6 == "DEFAULT" && $7 != "UND" { print $8 }' | c++filt | sort -u
}

# exported SECTION LIBRARY
exported() {
  case $1 in
    host) symbols "$2" GLOBAL | grep -v '^lockstep::cuda::' ;;
    cuda) symbols "$2" GLOBAL | grep '^lockstep::cuda::' ;;
    *) symbols "$2" GLOBAL ;;
  esac
}

section() { awk -v heading="[$1]" '/^\[/ { inside = $0 == heading; next } inside && !/^#/ && NF' "$list"; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0
while [ $# -gt 0 ]; do
  exported "$1" "$2" >"$folder/$1.new" || true
  section "$1" >"$folder/$1.old"
  if [ "$action" = check ] && ! cmp -s "$folder/$1.old" "$folder/$1.new"; then
    echo "[$1] $2 exports (+) what $list has not, or lacks (-) what it has:"
    comm -13 "$folder/$1.old" "$folder/$1.new" | sed 's/^/+ /'
    comm -23 "$folder/$1.old" "$folder/$1.new" | sed 's/^/- /'
    status=1
  fi
  if [ "$1" = host ]; then
    [ -s "$folder/host.new" ] || { echo "$2 exports nothing"; status=1; }
    internal=$(symbols "$2" "GLOBAL WEAK UNIQUE" | grep -E 'nlohmann|hwy::|lockstep::host::|lockstep::detail::warn\(' |
      grep -v '^lockstep::host::make_backend()' || true)
    if [ -n "$internal" ]; then
      echo "exported, though no public header declares them:"
      echo "$internal" | head -n 20
      status=1
    fi
  fi
  shift 2
done

if [ "$action" = update ]; then
  {
    sed '/^\[/,$d' "$list"
    for name in host cuda mpi gloo; do
      echo "[$name]"
      if [ -f "$folder/$name.new" ]; then cat "$folder/$name.new"; else section "$name"; fi
    done
  } >"$folder/list"
  cat "$folder/list" >"$list"
elif [ $status -ne 0 ]; then
  echo "If this is meant, \`cmake --build BUILD --target lockstep_update_exports\` writes the list."
  echo "What is removed breaks programs that were built before."
fi
exit $status
