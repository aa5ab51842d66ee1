/// A library for LD_PRELOAD that makes calls of the system fail.
///
///     LOCKSTEP_FAIL=pread:3:EIO       the third call of pread fails with EIO
///     LOCKSTEP_FAIL=write:2+:ENOSPC   so do the second call and all later ones
///     LOCKSTEP_FAIL=recv:1:short      the first call moves half of its bytes
///     LOCKSTEP_FAIL_TRACE=FILE        the program's end appends the number of calls of each name to FILE
///     LOCKSTEP_FAIL_CALLERS=gloo,mpi  calls of loaded libraries with these words in their names count, not
///     the program's
///
/// Only calls count that are made while calls are armed (failing_calls.hpp), by the program itself, by
/// liblockstep, or by the C++ library for them. A call that fails is not made, except that a connection that
/// a signal interrupts is.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include <dlfcn.h>
#include <link.h>
#include <netdb.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using Address = std::uintptr_t;

// Everything here is of plain data: other libraries' constructors call before this one's.
constexpr int kShort = 1 << 20;  // no errno
constexpr std::size_t kMaxRanges = 64;

struct Range {
  Address begin, end;
};
Range ranges[kMaxRanges];  // the code of those whose calls count
std::size_t num_ranges = 0;
std::atomic<bool> is_armed{false};
std::atomic<int> num_injected{0};

/// The calls of one name.
struct Calls {
  const char* name;
  std::atomic<std::int64_t> count{0};
  Calls* next = nullptr;
};
std::atomic<Calls*> all_calls{nullptr};  // those that have been made

std::string_view failing_name;
int error_of_failure = 0;
std::int64_t first_failing = 0;
bool fails_later = false, counts_malloc = false;

int number_of(std::string_view error) {
  if (error == "short") return kShort;
  for (int number = 1; number < 134; ++number)
    if (const char* const name = ::strerrorname_np(number); name != nullptr && error == name) return number;
  if (error == "EAI_AGAIN") return EAI_AGAIN;
  if (error == "EAI_MEMORY") return EAI_MEMORY;
  if (error == "EAI_FAIL") return EAI_FAIL;
  if (error == "MPI_ERR_OTHER") return 16;  // Open MPI's
  return 0;
}

void read_environment() {
  const char* const text = std::getenv("LOCKSTEP_FAIL");
  if (text == nullptr) return;
  const std::string_view whole = text;
  const std::size_t first = whole.find(':'), second = whole.rfind(':');
  failing_name = whole.substr(0, first);
  fails_later = second != first && whole[second - 1] == '+';
  if (first != second) first_failing = std::atoll(text + first + 1);
  error_of_failure = number_of(whole.substr(second + 1));
  if (first_failing > 0 && error_of_failure != 0) return;
  std::fprintf(stderr, "LOCKSTEP_FAIL=%s is not as NAME:NUMBER:ERROR\n", text);
  std::_Exit(2);
}

bool is_counted(const char* object, bool is_program) {
  const std::string_view name = object;
  const char* const callers = std::getenv("LOCKSTEP_FAIL_CALLERS");
  if (callers == nullptr)
    return is_program || name.find("/liblockstep") != name.npos || name.find("/libstdc++") != name.npos;
  for (std::string_view rest = callers; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    if (name.find(rest.substr(0, comma)) != name.npos && !is_program) return true;
    rest.remove_prefix(comma == rest.npos ? rest.size() : comma + 1);
  }
  return false;
}

int add_ranges(dl_phdr_info* object, std::size_t, void* data) {
  auto& num_objects = *static_cast<int*>(data);
  if (!is_counted(object->dlpi_name, num_objects++ == 0)) return 0;
  for (int i = 0; i < object->dlpi_phnum && num_ranges < kMaxRanges; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const Address begin = object->dlpi_addr + part.p_vaddr;
    ranges[num_ranges++] = {begin, begin + part.p_memsz};
  }
  return 0;
}

bool counts_calls_of(const void* caller) {
  const auto address = reinterpret_cast<Address>(caller);
  for (std::size_t i = 0; i < num_ranges; ++i)
    if (ranges[i].begin <= address && address < ranges[i].end) return true;
  return false;
}

void tell(const Calls& calls, std::int64_t number, const void* caller) {
  Dl_info found{};
  ::dladdr(caller, &found);
  char line[512];
  const int size =
      std::snprintf(line, sizeof line, "injected: %s, call %lld, from %s+0x%llx\n", calls.name,
                    static_cast<long long>(number), found.dli_fname == nullptr ? "?" : found.dli_fname,
                    static_cast<unsigned long long>(reinterpret_cast<Address>(caller) -
                                                    reinterpret_cast<Address>(found.dli_fbase)));
  ::syscall(SYS_write, STDERR_FILENO, line, static_cast<std::size_t>(size));
}

/// Counts a call. @return 0, or how it fails: an error, or kShort.
int failure_of(Calls& calls, const void* caller) {
  if (!is_armed.load() || !counts_calls_of(caller)) return 0;
  const std::int64_t number = ++calls.count;
  if (number == 1) {
    calls.next = all_calls.load();
    while (!all_calls.compare_exchange_weak(calls.next, &calls)) {
    }
  }
  if (number < first_failing || (number > first_failing && !fails_later) || failing_name != calls.name)
    return 0;
  if (num_injected++ == 0) tell(calls, number, caller);
  return error_of_failure;
}

/// The next function of that name. @param known  an atomic: a static that waits to be initialized would call
/// syscall.
template <class F>
F* next(std::atomic<F*>& known, const char* name) {
  F* found = known.load(std::memory_order_relaxed);
  if (found == nullptr) known = found = reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
  return found;
}

const char* const trace_path = std::getenv("LOCKSTEP_FAIL_TRACE");

__attribute__((destructor)) void write_trace() {
  if (trace_path == nullptr || all_calls == nullptr) return;
  is_armed = false;
  std::FILE* const file = std::fopen(trace_path, "a");
  if (file == nullptr) return;
  for (const Calls* calls = all_calls.exchange(nullptr); calls != nullptr; calls = calls->next)
    std::fprintf(file, "%s %lld\n", calls->name, static_cast<long long>(calls->count));
  std::fclose(file);
}

}  // namespace

extern "C" {

void lockstep_arm_calls(int armed) {
  if (armed != 0 && num_ranges == 0) {
    int num_objects = 0;
    ::dl_iterate_phdr(add_ranges, &num_objects);
    counts_malloc = std::getenv("LOCKSTEP_FAIL_CALLERS") != nullptr;
    read_environment();
  }
  is_armed = armed != 0;
}
void lockstep_write_calls() { write_trace(); }
int lockstep_num_injected() { return num_injected; }
int lockstep_injected_error() { return error_of_failure; }

// A function of another name for the linker's, so that the headers' declarations do not matter. FAILED is
// what the call returns, with `error`.
#define CALL(result, name, parameters, arguments, ...)                                            \
  static Calls calls_of_##name{#name};                                                            \
  __attribute__((visibility("default"))) result fail_##name parameters __asm__(#name);            \
  result fail_##name parameters {                                                                 \
    static std::atomic<result(*) parameters> known{};                                             \
    const auto real = next(known, #name);                                                         \
    if (const int error = failure_of(calls_of_##name, __builtin_return_address(0)); error != 0) { \
      __VA_ARGS__;                                                                                \
    }                                                                                             \
    return real arguments;                                                                        \
  }
#define MINUS_ONE return errno = error, -1
#define NO_POINTER return errno = error, nullptr
#define THE_ERROR return error
#define HALF                                       \
  {                                                \
    if (error != kShort) return errno = error, -1; \
    size = size > 1 ? size / 2 : size;             \
  }

CALL(int, open, (const char* path, int flags, unsigned mode), (path, flags, mode), MINUS_ONE)
CALL(int, open64, (const char* path, int flags, unsigned mode), (path, flags, mode), MINUS_ONE)
CALL(int, openat, (int folder, const char* path, int flags, unsigned mode), (folder, path, flags, mode),
     MINUS_ONE)
CALL(ssize_t, read, (int file, void* data, std::size_t size), (file, data, size), HALF)
CALL(ssize_t, write, (int file, const void* data, std::size_t size), (file, data, size), HALF)
CALL(ssize_t, pread, (int file, void* data, std::size_t size, off_t at), (file, data, size, at), HALF)
CALL(ssize_t, pwrite, (int file, const void* data, std::size_t size, off_t at), (file, data, size, at), HALF)
CALL(ssize_t, writev, (int file, const void* parts, int count), (file, parts, count), MINUS_ONE)
CALL(off_t, lseek, (int file, off_t at, int from), (file, at, from), MINUS_ONE)
CALL(off_t, lseek64, (int file, off_t at, int from), (file, at, from), MINUS_ONE)
CALL(int, fsync, (int file), (file), MINUS_ONE)
CALL(int, fstat, (int file, void* status), (file, status), MINUS_ONE)
CALL(int, stat, (const char* path, void* status), (path, status), MINUS_ONE)
CALL(int, lstat, (const char* path, void* status), (path, status), MINUS_ONE)
CALL(int, ftruncate, (int file, off_t size), (file, size), MINUS_ONE)
CALL(int, posix_fallocate, (int file, off_t begin, off_t size), (file, begin, size), THE_ERROR)
CALL(int, flock, (int file, int operation), (file, operation), MINUS_ONE)
CALL(int, fcntl, (int file, int command, long argument), (file, command, argument), MINUS_ONE)
CALL(int, rename, (const char* from, const char* to), (from, to), MINUS_ONE)
CALL(int, unlink, (const char* path), (path), MINUS_ONE)
CALL(int, unlinkat, (int folder, const char* path, int flags), (folder, path, flags), MINUS_ONE)
CALL(int, remove, (const char* path), (path), MINUS_ONE)
CALL(int, mkdir, (const char* path, unsigned mode), (path, mode), MINUS_ONE)
CALL(void*, opendir, (const char* path), (path), NO_POINTER)
CALL(void*, fdopendir, (int file), (file), NO_POINTER)
CALL(void*, readdir, (void* folder), (folder), NO_POINTER)
CALL(ssize_t, readlink, (const char* path, char* target, std::size_t size), (path, target, size), MINUS_ONE)
CALL(void*, fopen, (const char* path, const char* mode), (path, mode), NO_POINTER)
CALL(void*, fopen64, (const char* path, const char* mode), (path, mode), NO_POINTER)
CALL(int, glob, (const char* pattern, int flags, void* on_error, void* found),
     (pattern, flags, on_error, found), return error == ENOMEM ? 1 : 2)

CALL(void*, mmap, (void* at, std::size_t size, int access, int flags, int file, off_t begin),
     (at, size, access, flags, file, begin), return (errno = error, reinterpret_cast<void*>(-1)))
CALL(int, madvise, (void* data, std::size_t size, int advice), (data, size, advice), MINUS_ONE)
CALL(int, shm_open, (const char* name, int flags, unsigned mode), (name, flags, mode), MINUS_ONE)
CALL(int, shm_unlink, (const char* name), (name), MINUS_ONE)
CALL(int, memfd_create, (const char* name, unsigned flags), (name, flags), MINUS_ONE)
CALL(ssize_t, getrandom, (void* data, std::size_t size, unsigned flags), (data, size, flags), HALF)

CALL(int, socket, (int family, int type, int protocol), (family, type, protocol), MINUS_ONE)
CALL(int, bind, (int socket, const void* address, unsigned size), (socket, address, size), MINUS_ONE)
CALL(int, listen, (int socket, int backlog), (socket, backlog), MINUS_ONE)
CALL(int, accept, (int socket, void* peer, void* size), (socket, peer, size), MINUS_ONE)
CALL(int, accept4, (int socket, void* peer, void* size, int flags), (socket, peer, size, flags), MINUS_ONE)
CALL(int, connect, (int socket, const void* address, unsigned size), (socket, address, size), {
  if (error == EINTR) real(socket, address, size);
  return errno = error, -1;
})
CALL(ssize_t, send, (int socket, const void* data, std::size_t size, int flags), (socket, data, size, flags),
     HALF)
CALL(ssize_t, recv, (int socket, void* data, std::size_t size, int flags), (socket, data, size, flags), HALF)
CALL(int, poll, (void* watched, unsigned long count, int limit), (watched, count, limit), MINUS_ONE)
CALL(int, epoll_create, (int size), (size), MINUS_ONE)
CALL(int, epoll_ctl, (int poll, int operation, int file, void* event), (poll, operation, file, event),
     MINUS_ONE)
CALL(int, epoll_wait, (int poll, void* events, int count, int limit), (poll, events, count, limit), MINUS_ONE)
CALL(int, getsockopt, (int socket, int level, int option, void* value, void* size),
     (socket, level, option, value, size), MINUS_ONE)
CALL(int, setsockopt, (int socket, int level, int option, const void* value, unsigned size),
     (socket, level, option, value, size), MINUS_ONE)
CALL(int, getsockname, (int socket, void* address, void* size), (socket, address, size), MINUS_ONE)
CALL(int, getpeername, (int socket, void* address, void* size), (socket, address, size), MINUS_ONE)
CALL(int, shutdown, (int socket, int how), (socket, how), MINUS_ONE)
CALL(int, eventfd, (unsigned value, int flags), (value, flags), MINUS_ONE)
CALL(int, getaddrinfo, (const char* host, const char* port, const void* hints, void* found),
     (host, port, hints, found), THE_ERROR)
CALL(int, getnameinfo,
     (const void* address, unsigned size, char* host, unsigned host_size, char* port, unsigned port_size,
      int flags),
     (address, size, host, host_size, port, port_size, flags), THE_ERROR)
CALL(int, getifaddrs, (void* found), (found), MINUS_ONE)
CALL(int, gethostname, (char* name, std::size_t size), (name, size), MINUS_ONE)

CALL(int, pthread_create, (void* thread, const void* options, void* function, void* argument),
     (thread, options, function, argument), THE_ERROR)
CALL(int, sigaction, (int number, const void* action, void* before), (number, action, before), MINUS_ONE)
CALL(int, setenv, (const char* name, const char* value, int replace), (name, value, replace), MINUS_ONE)
CALL(long, syscall, (long number, long a, long b, long c, long d, long e, long f), (number, a, b, c, d, e, f),
     MINUS_ONE)
// dlerror says what is missing.
CALL(void*, dlopen, (const char* path, int flags), (path, flags), path = "an injected failure")
CALL(int, hwloc_topology_init, (void* topology), (topology), MINUS_ONE)
CALL(int, hwloc_topology_load, (void* topology), (topology), MINUS_ONE)
CALL(int, hwloc_set_cpubind, (void* topology, void* set, int flags), (topology, set, flags), MINUS_ONE)
CALL(int, hwloc_get_cpubind, (void* topology, void* set, int flags), (topology, set, flags), MINUS_ONE)
CALL(int, hwloc_set_area_membind,
     (void* topology, void* data, std::size_t size, void* set, int policy, int flags),
     (topology, data, size, set, policy, flags), MINUS_ONE)
CALL(void*, hwloc_bitmap_alloc, (), (), NO_POINTER)

CALL(int, posix_memalign, (void** data, std::size_t alignment, std::size_t size), (data, alignment, size),
     THE_ERROR)

// MPI ends the process itself where its start fails.
CALL(int, MPI_Query_thread, (void* level), (level), THE_ERROR)
CALL(int, MPI_Comm_rank, (void* group, void* rank), (group, rank), THE_ERROR)
CALL(int, MPI_Comm_size, (void* group, void* size), (group, size), THE_ERROR)
CALL(int, MPI_Comm_idup, (void* group, void* made, void* request), (group, made, request), THE_ERROR)
CALL(int, MPI_Comm_free, (void* group), (group), THE_ERROR)
CALL(int, MPI_Comm_set_errhandler, (void* group, void* handler), (group, handler), THE_ERROR)
CALL(int, MPI_Irecv, (void* data, int count, void* type, int from, int tag, void* group, void* request),
     (data, count, type, from, tag, group, request), THE_ERROR)
CALL(int, MPI_Isend, (const void* data, int count, void* type, int to, int tag, void* group, void* request),
     (data, count, type, to, tag, group, request), THE_ERROR)
CALL(int, MPI_Ibcast, (void* data, int count, void* type, int root, void* group, void* request),
     (data, count, type, root, group, request), THE_ERROR)
CALL(int, MPI_Test, (void* request, void* flag, void* status), (request, flag, status), THE_ERROR)
CALL(int, MPI_Cancel, (void* request), (request), THE_ERROR)

// Allocations that C libraries make for the program; the C++ library's are the operators'.
#ifndef LOCKSTEP_SANITIZED
#define ALLOCATION(name, parameters, arguments)                                                   \
  static Calls calls_of_##name{#name};                                                            \
  void* __libc_##name parameters;                                                                 \
  __attribute__((visibility("default"))) void* fail_##name parameters __asm__(#name);             \
  void* fail_##name parameters {                                                                  \
    if (counts_malloc)                                                                            \
      if (const int error = failure_of(calls_of_##name, __builtin_return_address(0)); error != 0) \
        NO_POINTER;                                                                               \
    return __libc_##name arguments;                                                               \
  }
ALLOCATION(malloc, (std::size_t size), (size))
ALLOCATION(calloc, (std::size_t count, std::size_t size), (count, size))
ALLOCATION(realloc, (void* data, std::size_t size), (data, size))
#endif

}  // extern "C"

static Calls calls_of_new{"new"};

#define OPERATOR(symbol, parameters, arguments, FAILED)                                              \
  extern "C" __attribute__((visibility("default"))) void* fail_##symbol parameters __asm__(#symbol); \
  extern "C" void* fail_##symbol parameters {                                                        \
    static std::atomic<void*(*)parameters> known;                                                    \
    const auto real = next(known, #symbol);                                                          \
    if (failure_of(calls_of_new, __builtin_return_address(0)) != 0) FAILED;                          \
    return real arguments;                                                                           \
  }
#define BAD_ALLOC throw std::bad_alloc()

OPERATOR(_Znwm, (std::size_t size), (size), BAD_ALLOC)
OPERATOR(_Znam, (std::size_t size), (size), BAD_ALLOC)
OPERATOR(_ZnwmSt11align_val_t, (std::size_t size, std::size_t alignment), (size, alignment), BAD_ALLOC)
OPERATOR(_ZnamSt11align_val_t, (std::size_t size, std::size_t alignment), (size, alignment), BAD_ALLOC)
OPERATOR(_ZnwmRKSt9nothrow_t, (std::size_t size, const void* tag), (size, tag), return nullptr)
OPERATOR(_ZnamRKSt9nothrow_t, (std::size_t size, const void* tag), (size, tag), return nullptr)
