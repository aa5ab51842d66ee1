#!/bin/sh
# Builds lockstep_bench and the peers that are installed, runs all of them side by side, and prints the table of figures to
# reach. Installs nothing: README.md says what the peers need.
#
#   benchmarks/compare/run.sh [--quick] [--output PREFIX]
#   PYTHON=venv/bin/python BUILD=build/release benchmarks/compare/run.sh
#
# PYTHON  runs the Python peers [python3]
# BUILD   the folder of the build; configured here if it is not one yet [build/compare]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${BUILD:-$root/build/compare}
python=${PYTHON:-python3}

if [ ! -f "$build/CMakeCache.txt" ]; then
  cmake -S "$root" --preset release -B "$build" -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_BUILD_TESTS=OFF -DLOCKSTEP_BUILD_EXAMPLES=OFF >&2
fi
# In LibTorch's and PyTorch's steps a replica has one thread; elsewhere OpenBLAS is not used.
export OPENBLAS_NUM_THREADS=1
cmake --build "$build" --target lockstep_bench compare_peers >&2
exec python3 "$here/compare.py" --build "$build" --python "$python" "$@"
