#!/usr/bin/env bash
# The first contact of the CUDA backend with a GPU: ten minutes on one, most telling first. README.md says how.
#
#   first_contact.sh prepare [PACKAGE]       where the sources are: builds, checks and packs into the folder PACKAGE
#   first_contact.sh pack PACKAGE PROGRAM... packs programs that are built already
#   PACKAGE/first_contact.sh check           whether each program, test and option of the plan is there; needs no GPU
#   PACKAGE/first_contact.sh run [RESULTS]   where the GPU is: measures, and prints the table
#
# Under vgpu-run `run` is a rehearsal, with small sizes and few tests.
#
# LIMIT   seconds for all of `run` [575]
# STAGES  which of them, by name [all]
# ARCHITECTURE  of the GPU that `prepare` builds for [90-real]
set -u
PATH=$PATH:/usr/sbin:/sbin  # ldconfig
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PROGRAMS="lockstep_contract_cuda lockstep_cuda_backend lockstep_bench lockstep_hardware"

usage() {
  sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
}

# ---- The plan: a name, a time limit in seconds, and what is run. ----

plan() {
  local bytes=268435456 rounds=9 large=64M odd=67108868 tests="~[none]" shards=4 gradients=gradients.txt shapes
  local sizes=(-b 8 -e 128M -f 8) repeat=(-n 200 -w 2)
  shapes="1,67108864,1 1,1048576,1 16777216,4,1 1048576,64,1 65536,1000,1 65536,1001,1 16384,4096,1 100,671089,1
          1,65536,1024 1,65536,1000 1,4194304,10 1,8,8388608 64,1000,256 1024,64,1024"
  patience=1
  if [ -n "${VGPU_DEVICES:-}" ]; then  # a rehearsal
    bytes=1048576 rounds=1 large=8K odd=8196 tests="[copy]" shards=1 gradients=small_gradients.txt
    sizes=(-b 8 -e 8K -f 32) repeat=(-n 2 -w 1)
    shapes="1,512,1 1,64,1 64,4,1 32,64,1 16,100,1 16,101,1 4,256,1 3,67,1
            1,64,32 1,64,33 1,64,10 1,8,64 4,20,16 16,8,16"
    patience=20
  fi
  local bench=(--backend cuda --floor -c 0 "${repeat[@]}")

  # Where are we, does anything start?
  stage environment 15 environment
  measure start 15 all_reduce --backend cuda --replicas 1 -b 8 -e "$large" -f 64 -n 5

  # What hardware alone decides: meanings, and which calls wait behind a kernel that does not end.
  hardware semantics 15 "$bytes" "$rounds"
  hardware blocking 35 "$bytes" "$rounds"

  # The communicator on NVIDIA's library, with one rank.
  hardware nccl 25 "$bytes" "$rounds"

  # Where there are two: own kernels through peer memory, beside NCCL, as calls and as graphs.
  if [ "$gpus" -ge 2 ]; then
    local between=(all_reduce --backend cuda --replicas 2 -t 2 "${sizes[@]}" "${repeat[@]}")
    tests peers 25 lockstep_cuda_backend 1 1 "*peers*"
    tests windows 20 lockstep_cuda_backend 1 1 "*window*"
    tool memcheck_peers 25 compute-sanitizer "--tool memcheck --error-exitcode 9" lockstep_cuda_backend "*peers*"
    measure between_peers 15 "${between[@]}"
    measure between_peers_graph 15 "${between[@]}" -G 5
    LOCKSTEP_PEER_BYTES=0 measure between_nccl 15 "${between[@]}"
    LOCKSTEP_PEER_BYTES=0 measure between_nccl_graph 15 "${between[@]}" -G 5
  fi

  # Is it right? As one GPU, and as four virtual devices.
  tests contract_1 70 lockstep_contract_cuda 1 "$shards" "$tests"
  tests contract_4 90 lockstep_contract_cuda 4 "$shards" "$tests"
  tests backend_1 20 lockstep_cuda_backend 1 1 "~[none]"
  tests backend_4 20 lockstep_cuda_backend 4 1 "~[none]"

  # How fast? Host costs first, as they decide small steps; then bytes beside a copy in the same run.
  hardware host_costs 20 "$bytes" "$rounds" 4
  measure run_4 10 run --backend cuda --virtual 4 "${repeat[@]}"
  measure step_4 10 step --backend cuda --virtual 4 "${repeat[@]}"
  measure all_reduce_8 30 all_reduce --virtual 8 "${sizes[@]}" "${bench[@]}"
  measure all_reduce_2 15 all_reduce --virtual 2 "${sizes[@]}" "${bench[@]}"
  measure dtypes_8 20 all_reduce --virtual 8 -b "$large" -e "$large" -d all "${bench[@]}"
  measure operators_8 15 all_reduce --virtual 8 -b "$large" -e "$large" -o all "${bench[@]}"
  measure unaligned_8 10 all_reduce --virtual 8 -b "$large" -e "$large" -u 1 "${bench[@]}"
  local collective shape number=0
  for collective in broadcast all_gather reduce_scatter alltoall; do
    measure ${collective}_8 8 $collective --virtual 8 -b "$large" -e "$large" "${bench[@]}"
    measure ${collective}_8_odd 8 $collective --virtual 8 -b "$odd" -e "$odd" "${bench[@]}"
  done
  for shape in $shapes; do
    number=$((number + 1))
    measure axis_$number 8 axis_reduce --virtual 1 --shape "$shape" "${bench[@]}"
  done
  measure axis_bfloat16 8 axis_reduce --virtual 1 --shape "$shape" -d bfloat16 "${bench[@]}"
  measure batch_4 20 batch_reduce --virtual 4 --sizes_file "$here/$gradients" "${bench[@]}"
  hardware elementwise 30 "$bytes" "$rounds"
  hardware reductions 15 "$bytes" "$rounds"
  hardware copies 10 "$bytes" "$rounds"

  # Memory errors and races that results do not show. The tools slow programs 10 to 100 times.
  tool memcheck 45 compute-sanitizer "--tool memcheck --leak-check no --error-exitcode 9" \
       lockstep_contract_cuda "[reduce],[kernels],[model_kernels],[copy]"
  tool racecheck 25 compute-sanitizer "--tool racecheck --error-exitcode 9" lockstep_contract_cuda "[reduce]"
  tool initcheck 15 compute-sanitizer "--tool initcheck --error-exitcode 9" lockstep_contract_cuda "[reduce]"

  # Why? Share of the memory's rate, occupancy and waves of kernels.
  local metrics=dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active
  metrics+=,launch__registers_per_thread,launch__grid_size,launch__waves_per_multiprocessor,gpu__time_duration.sum
  local ncu="--clock-control none --metrics $metrics --csv --launch-count 12"
  tool ncu_all_reduce 20 ncu "$ncu -k regex:combine_kernel|copy_kernel" \
       lockstep_bench all_reduce --backend cuda --virtual 8 -b "$large" -e "$large" -n 2 -c 0
  tool ncu_axis 20 ncu "$ncu -k regex:reduce_rows|reduce_columns" \
       lockstep_bench axis_reduce --backend cuda --virtual 1 --shape 64,1000,256 -n 2 -c 0
}

# What a stage of each kind runs. `check` has others of the same names.
define_stages() {
  measure() { stage "$1" "$2" "$here/lockstep_bench" "${@:3}" -J "$results/$1.json"; }
  hardware() { stage "$1" "$2" "$here/lockstep_hardware" "$1" "${@:3}"; }
  tests() { stage "$1" "$2" python3 "$here/run_tests.py" "$here/$3" "$4" "$5" $(($2 * patience - 5)) "$6"; }
  tool() {
    local options
    read -ra options <<<"$4"
    if command -v "$3" >/dev/null; then
      # Streams keep no freed memory, whose use would not show.
      LOCKSTEP_STREAM_CACHE_BYTES=0 stage "$1" "$2" "$3" "${options[@]}" "$here/$5" "${@:6}"
    else
      echo "$1: left out, there is no $3" | tee -a "$results/summary.txt"
    fi
  }
  # Within what is left; 10 seconds are kept for the table.
  stage() {
    local name=$1 limit=$(($2 * patience)) left=$((LIMIT - SECONDS - 10)) begin=$SECONDS status note=""
    shift 2
    case " ${STAGES:-all} " in *" all "* | *" $name "*) ;; *) return ;; esac
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -lt 3 ]; then
      status=124 note=" (no time is left)"
    elif [ "$1" = environment ]; then
      environment >"$results/$name.txt" 2>&1
      status=$?
    else
      timeout -k 3 "$limit" "$@" >"$results/$name.txt" 2>&1
      status=$?
      [ $status -ne 124 ] || note=" (time-out)"
    fi
    [ $status -eq 0 ] || failures=$((failures + 1))
    echo "$name: status $status$note, $((SECONDS - begin)) s" | tee -a "$results/summary.txt"
    [ $status -eq 0 ] || tail -n 5 "$results/$name.txt" 2>/dev/null
  }
}

environment() {
  timeout 10 nvidia-smi
  timeout 10 nvidia-smi --format=csv \
    --query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,compute_mode,mig.mode.current
  nproc
  uname -r
  command -v ncu compute-sanitizer
  ! ldd "$here/lockstep_hardware" | grep 'not found'
}

# ---- run ----

# CUDA's libraries where the loader does not find them: of other toolkits, or of Python's packages. Of the package's own
# only what is not there: an older copy must not hide a newer one.
find_libraries() {
  local library at
  for library in libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libnccl.so.2; do
    ! ldd "$here/lockstep_hardware" | grep -q "$library => /" || continue
    ! ldconfig -p | grep -q "$library " || continue
    at=$(find /usr /opt "${HOME:-/root}" -xdev -name $library -print -quit 2>/dev/null)
    echo "$library: ${at:-not found}" | tee -a "$results/summary.txt"
    [ -z "$at" ] || LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(dirname "$at")"
  done
  mkdir -p "$results/lib"
  for library in "$here"/lib/*; do
    ldconfig -p | grep -q "$(basename "$library") " || cp "$library" "$results/lib/"
  done
  LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$results/lib"
  PATH="$PATH:/usr/local/cuda/bin"
  export PATH LD_LIBRARY_PATH
}

unpack() {
  [ -x "$here/lockstep_hardware" ] ||
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/programs.tar.xz" "$here"
}

run() {
  results=${1:-$here/results}
  mkdir -p "$results" && rm -rf "${results:?}"/{*.txt,*.json,table.md,lib} || exit 1
  LIMIT=${LIMIT:-575} failures=0
  [ -z "${VGPU_DEVICES:-}" ] || LIMIT=1700
  unpack || exit 1
  find_libraries
  gpus=${VGPU_DEVICES:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')}
  export NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=WARN  # one machine
  define_stages
  plan
  local options=()
  [ -z "${VGPU_DEVICES:-}" ] || [ -n "${STAGES:-}" ] || options=(--rehearsal)  # of all stages
  python3 "$here/table.py" "$here/predictions.tsv" "$results" "${options[@]}" >"$results/table.md" ||
    failures=$((failures + 1))
  cat "$results/table.md"
  echo "$failures stages failed, $SECONDS s; $results has summary.txt, table.md and what each stage printed"
  [ "$failures" -eq 0 ]
}

# ---- check ----

check() {
  unpack || exit 1
  failures=0
  wrong() {
    echo "$1: $2"
    failures=$((failures + 1))
  }
  lists() {  # NAME PROGRAM FILTER
    [ "$("$here/$2" "$3" --list-tests --verbosity quiet 2>&1 | wc -l)" -gt 0 ] || wrong "$1" "no test of $2 matches $3"
  }
  # No device is left, so that only the options are looked at.
  accepts() {  # NAME ARGUMENT...
    local said
    said=$(CUDA_VISIBLE_DEVICES="" "$here/lockstep_bench" "${@:2}" 2>&1 | grep -m 1 '^lockstep_bench: ')
    [[ $said == *" GPU:0"* ]] || wrong "$1" "$said, of lockstep_bench ${*:2}"
  }
  stage() { :; }
  measure() { accepts "$1" "${@:3}"; }
  hardware() { "$here/lockstep_hardware" --list | grep -qx "$1" || wrong "$1" "lockstep_hardware has no such section"; }
  tests() { lists "$1" "$3" "$6"; }
  tool() {
    case "$5" in
      lockstep_bench) accepts "$1" "${@:6}" ;;
      *) lists "$1" "$5" "$6" ;;
    esac
  }
  local program
  for program in $PROGRAMS; do [ -x "$here/$program" ] || wrong prepare "there is no program $program"; done
  gpus=2 VGPU_DEVICES="" plan
  gpus=2 VGPU_DEVICES=1 plan
  [ $failures -eq 0 ] && echo "all is there"
}

# ---- prepare ----

# Host libraries that another machine may lack, OpenBLAS included, which is loaded at its first use; not the C library's
# and not CUDA's.
host_libraries() {
  local openblas
  openblas=$(ldconfig -p | awk '$1 == "libopenblas.so.0" { print $NF; exit }')
  ldd "$@" ${openblas:+"$openblas"} | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(lib(c|m|dl|rt|pthread|cuda|cudart|cublas|cublasLt|nccl)|ld-linux[^/]*)\.so'
  [ -z "$openblas" ] || echo "$openblas"
}

pack() {
  local package=$1 program library
  shift
  contents=$(mktemp -d)
  trap 'rm -rf "$contents"' EXIT
  chmod 755 "$contents"  # which the package's folder becomes
  mkdir -p "$contents/lib" "$package"
  for program in "$@"; do
    strip -o "$contents/$(basename "$program")" "$program" || return 1
  done
  host_libraries "$@" | while read -r library; do cp -L "$library" "$contents/lib/"; done
  tar -C "$contents" -cJf "$package/programs.tar.xz" . || return 1
  for program in $PROGRAMS lib; do rm -rf "${package:?}/$program"; done  # of an older package
  cp "$here"/{first_contact.sh,run_tests.py,table.py,predictions.tsv,small_gradients.txt} "$package/" &&
    cp "$here/../../benchmarks/compare/resnet50_gradients.txt" "$package/gradients.txt" &&
    du -sh "$package"
}

prepare() {
  local root build package=$1 programs
  root=$(cd "$here/../.." && pwd)
  build=$root/build/hardware
  # shellcheck disable=SC2086
  cmake -S "$root" -B "$build" --preset cuda -DCMAKE_CUDA_ARCHITECTURES="${ARCHITECTURE:-90-real}" -DLOCKSTEP_NCCL=ON \
        -DLOCKSTEP_VGPU=OFF -DLOCKSTEP_BUILD_EXAMPLES=OFF &&
    cmake --build "$build" --target $PROGRAMS || return 1
  mapfile -t programs < <(
    for each in $PROGRAMS; do find "$build"/{tests,benchmarks} -type f -name "$each" -perm -u+x; done
  )
  pack "${package:-$build/package}" "${programs[@]}" && "${package:-$build/package}/first_contact.sh" check
}

case "${1:-}" in
  prepare) prepare "${2:-}" ;;
  pack) [ $# -ge 3 ] || usage; pack "${@:2}" ;;
  check) check ;;
  run) run "${2:-}" ;;
  *) usage ;;
esac
