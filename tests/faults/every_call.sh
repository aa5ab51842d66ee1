#!/usr/bin/env bash
# every_call.sh LIBRARY "PROGRAM ARGUMENT..." [MOST] [NAME...]: makes each call of the system that PROGRAM makes of these names, or of
# all, fail in turn, with each error that its manual page names; with MOST at most so many calls of each name and error,
# at equal distances; with MOST 0 the first call alone, with the first error. LIBRARY is lockstep_failing_calls.so. Every
# run must end by itself with status 0: scenario.hpp.
set -u
library=$1 program=$2 most=${3:-1000000}
shift $(($# < 3 ? $# : 3))
only=" $* "
# A sanitizer's library comes first.
library="$(ldd "${program%% *}" 2>/dev/null | sed -n "s/.*=> \(.*lib[atu]b*san[^ ]*\) .*/\1/p" | tr "\n" " ")$library"

# How each call fails. EINTR and short must go unnoticed.
errors() {
  case $1 in
    open | open64 | openat) echo EMFILE EACCES EINTR ;;
    read | pread | recv) echo EIO EINTR short ;;
    write | pwrite) echo ENOSPC EIO EINTR short ;;
    fsync) echo EIO ENOSPC EINTR ;;
    ftruncate | posix_fallocate) echo ENOSPC EINTR ;;
    fstat | stat | lstat | shutdown) echo EIO ;;
    flock) echo ENOLCK EINTR ;;
    rename | mkdir) echo ENOSPC EACCES ;;
    unlink | unlinkat | remove | readlink | shm_unlink) echo EACCES ;;
    opendir | fdopendir | fopen | fopen64 | epoll_create | memfd_create | eventfd) echo EMFILE ;;
    readdir) echo EIO ;;
    shm_open) echo EMFILE EACCES EINTR ;;
    mmap | madvise | posix_memalign | new | malloc | calloc | realloc | glob | setenv | dlopen | hwloc_*) echo ENOMEM ;;
    socket) echo EMFILE ENOBUFS ;;
    accept | accept4) echo EMFILE ECONNABORTED EINTR ;;
    bind) echo EADDRINUSE EACCES ;;
    listen) echo EADDRINUSE ;;
    connect) echo ECONNREFUSED ENETUNREACH ETIMEDOUT EINTR ;;
    send | writev) echo ECONNRESET EPIPE EINTR short ;;
    poll | epoll_wait) echo ENOMEM EINTR ;;
    epoll_ctl) echo ENOMEM ENOSPC ;;
    getsockopt | setsockopt | getsockname | getpeername) echo ENOBUFS ;;
    getaddrinfo | getnameinfo) echo EAI_AGAIN EAI_MEMORY ;;
    getrandom) echo ENOSYS EINTR ;;
    gethostname) echo ENAMETOOLONG ;;
    pthread_create) echo EAGAIN ;;
    syscall) echo EINTR ;;
    MPI_*) echo MPI_ERR_OTHER ;;
    *) echo EINVAL ;;
  esac
}

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder

# run FAILURE: runs the program, and says what is wrong with it.
runs=0 failures=0
run() {
  local status wrong=
  LOCKSTEP_FAIL=$1 LD_PRELOAD=$library timeout -k 5 60 $program >"$folder/output" 2>&1 </dev/null 3<&-
  status=$?
  runs=$((runs + 1))
  [ $status -eq 0 ] || wrong="ended with status $status"
  find "$folder" -mindepth 1 -maxdepth 1 -not -name output -not -name trace | grep -q . && wrong+=" left files behind"
  [ -z "$wrong" ] && return
  failures=$((failures + 1))
  printf -- '--- %s %s\n' "$1" "$wrong"
  head -c 5000 "$folder/output"
  find "$folder" -mindepth 1 -maxdepth 1 -not -name output -not -name trace -exec rm -rf {} +
}

unset LOCKSTEP_FAIL LOCKSTEP_FAULTS_LEFT
LOCKSTEP_FAIL_TRACE=$folder/trace LD_PRELOAD=$library $program >"$folder/output" 2>&1
status=$?
if [ $status -eq 77 ]; then
  cat "$folder/output"  # why it is skipped
  exit 77
fi
if [ $status -ne 0 ] || ! grep -qx untouched "$folder/output"; then
  echo "the program fails by itself"
  cat "$folder/output"
  exit 1
fi
LOCKSTEP_FAULTS_LEFT=$(sed -n 's/^left: //p' "$folder/output")
export LOCKSTEP_FAULTS_LEFT
sort -o "$folder/trace" "$folder/trace"
while read -r name count <&3; do
  [ "$only" = "  " ] || [[ "$only" == *" $name "* ]] || continue
  if [ "$most" -eq 0 ]; then
    run "$name:1:$(errors "$name" | cut -d' ' -f1)"
    continue
  fi
  step=$(((count + most - 1) / most))
  for error in $(errors "$name"); do
    for ((n = 1; n <= count; n += step)); do run "$name:$n:$error"; done
    case $error in EINTR | short) ;; *) run "$name:1+:$error" ;; esac
  done
done 3<"$folder/trace"
echo "$runs runs, $failures failed"
[ $failures -eq 0 ] && [ $runs -gt 0 ]
