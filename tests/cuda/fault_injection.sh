#!/usr/bin/env bash
# fault_injection.sh VGPU_RUN PROGRAM [PATTERN]: makes each call that PROGRAM makes of the CUDA runtime, NCCL and cuBLAS (of
# those whose names match PATTERN) fail in turn. Every run must end by itself, without a leak, in one of the library's
# exceptions or untouched. An exception for a call of NCCL or the driver, or for cudaSetDevice, names it.
set -u
vgpu_run=$1 program=$2 pattern=${3:-.}
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT

"$vgpu_run" -n 2 --trace "$trace" -- "$program" | grep -qx untouched || { echo "the program fails by itself"; exit 1; }
# Queries, and what releases, cannot fail in a way that the library could report.
names=$(grep -oE '\b(cu|cuda|nccl|cublas)[A-Z][A-Za-z0-9_]*' "$trace" | sort -u | grep -E "$pattern" |
        grep -vE '^cuda(GetLastError|PeekAtLastError|GetErrorString|GetErrorName|GetDevice)$|^nccl(GetErrorString|GetLastError)$')
# What fails to release leaves behind what it was to release.
releases='^(cudaFree|cudaFreeAsync|cudaFreeHost|cudaMemPoolDestroy|cudaStreamDestroy|cudaEventDestroy|cublasDestroy|ncclCommDestroy|ncclRedOpDestroy)(_v2)?$'
runs=0 failures=0
for name in $names; do
  for ((n = 1; ; ++n)); do
    output=$(timeout 60 "$vgpu_run" -n 2 --deadlock-ms 20000 --leakcheck --strict current-device --fail "$name:$n" -- "$program" 2>&1)
    status=$?
    runs=$((runs + 1))
    [[ $name =~ $releases && $status -eq 86 ]] && status=0
    exception=$(grep '^N8lockstep' <<<"$output")
    [[ $name =~ ^(nccl|cu[A-Z]|cudaSetDevice) && -n $exception && $exception != *"$name"* ]] && status="$status, without the call's name"
    if [ "$status" != 0 ]; then
      failures=$((failures + 1))
      printf -- '--- %s:%d ended with status %s\n%s\n' "$name" "$n" "$status" "$output"
    fi
    grep -qx untouched <<<"$output" && ! grep -q "injected" <<<"$output" && break
    [ "$n" -lt 200 ] || break
  done
done
echo "$runs runs, $failures failed"
[ $failures -eq 0 ] && [ $runs -gt 0 ]
