#!/bin/sh
# pkg_config.sh PREFIX MODULES SOURCE PROGRAM COMPILER OPTION...: compiles SOURCE with what pkg-config says of the
# MODULES of the lockstep in PREFIX, and runs PROGRAM with the name of each. Exits with 77 if there is no COMPILER.
set -eu
prefix=$1 modules=$2 source=$3 program=$4 compiler=$5
shift 5
command -v "$compiler" || { echo "skipped: there is no $compiler"; exit 77; }
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name lockstep.pc)")
export PKG_CONFIG_PATH
export LD_LIBRARY_PATH="$PKG_CONFIG_PATH/..${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
# shellcheck disable=SC2046,SC2086 # lists
"$compiler" "$@" $(pkg-config --cflags $modules) "$source" -o "$program" $(pkg-config --libs $modules)
for module in $modules; do
  "$program" "${module#lockstep-}"
done
