#!/usr/bin/env bash
# fault_injection.sh VGPU_RUN EVERY PROGRAM [ARGUMENT...]: makes each call that PROGRAM makes of the CUDA runtime, NCCL
# and cuBLAS fail in turn, and each kernel, copy and collective that runs; or every EVERY-th of all of them, counted in
# the order of their names. Every run must end by itself, in one of the library's exceptions or untouched, without a
# leak and with a new strategy at work. An exception for a call that fails names it, unless memory ran out or the call
# only asked what GPUs can do, and so does a message.
set -u
vgpu_run=$1 every=$2
shift 2
trace=$(mktemp)
trap 'rm -f "$trace"' EXIT

"$vgpu_run" -n 2 --trace "$trace" -- "$@" | grep -qx untouched || { echo "the program fails by itself"; exit 1; }
# Queries, and what releases, cannot fail in a way that the library could report. Where the capture mode does not change,
# the next call fails.
names=$(grep -oE '\b(cu|cuda|nccl|cublas)[A-Z][A-Za-z0-9_]*' "$trace" | sort -u |
        grep -vE '^cuda(GetLastError|PeekAtLastError|GetErrorString|GetErrorName|GetDevice|ThreadExchangeStreamCaptureMode)$|^nccl(GetErrorString|GetLastError)$')
# What fails to release leaves behind what it was to release, and so does a device that is lost.
leaves='^(cudaFree|cudaFreeAsync|cudaFreeHost|cudaMemPoolDestroy|cudaGraphDestroy|cudaGraphExecDestroy|cudaStreamDestroy|cudaEventDestroy|cublasDestroy|ncclCommDestroy|ncclCommWindowDeregister|ncclMemFree|ncclRedOpDestroy)(_v2)?$|^(kernel|copy|collective)$'

# count NAME: the times that it is in the trace.
count() {
  case $1 in
    kernel | copy) grep -c "run #[0-9]* $1 " "$trace" ;;
    collective) grep -cE "run #[0-9]+ (nccl|send|recv)" "$trace" ;;
    *) grep -ow "$1" "$trace" | wc -l ;;
  esac
}

runs=0 failures=0 n=1
for name in $names kernel copy collective; do
  # A call that fails leaves nothing to wait for. A device that is lost leaves the others, in collectives with it, to the
  # deadlock's report.
  deadlock_ms=20000
  [[ $name =~ ^(kernel|copy|collective)$ ]] && deadlock_ms=1000
  number=$(count "$name")
  for (( ; n <= number; n += every)); do
    output=$(timeout 60 "$vgpu_run" -n 2 --deadlock-ms $deadlock_ms --leakcheck --strict current-device --fail "$name:$n" -- "$@" 2>&1)
    status=$?
    runs=$((runs + 1))
    [[ $name =~ $leaves && $status -eq 86 ]] && status=0
    exception=$(grep '^N8lockstep' <<<"$output" | grep -vE '^N8lockstep11(OutOfMemory|Unsupported)' | head -1)
    [[ $name =~ ^(nccl|cu) && -n $exception && $exception != *"$name"* ]] && status="$status, without the call's name"
    grep '^lockstep: .* failed with' <<<"$output" | grep -qvE ' (cu|cuda|nccl|cublas)[A-Z][A-Za-z0-9_]*(\(.*\))? failed with' &&
      status="$status, with a message without the call's name"
    if [ "$status" != 0 ]; then
      failures=$((failures + 1))
      printf -- '--- %s:%d ended with status %s\n%s\n' "$name" "$n" "$status" "$output"
    fi
  done
  n=$((n - number))
done
echo "$runs runs, $failures failed"
[ $failures -eq 0 ] && [ $runs -gt 0 ]
