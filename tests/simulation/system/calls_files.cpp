// What a checkpoint calls, in place of the C library's. The files are real; calls take time, in which the
// process may be killed, write parts, and find the disk full.
#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "simulation/system/files.hpp"
#include "simulation/system/real.hpp"
#include "simulation/system/system.hpp"

using namespace lockstep::simulation;

namespace lockstep::simulation {
namespace {

constexpr Time kLongestFileTime = 2 * kMillisecond;
constexpr std::uint64_t kWritesPerPart = 4;

void take_time() {
  System& system = *System::current();
  system.sleep_until(system.now() + system.random().between(10 * kMicrosecond, kLongestFileTime));
}

bool is_own_file(int descriptor) {
  return System::self() != nullptr && System::current()->process().files.contains(descriptor);
}

}  // namespace

ssize_t write_file(int descriptor, const void* data, std::size_t size) {
  if (!is_own_file(descriptor)) return REAL(write)(descriptor, data, size);
  take_time();
  System& system = *System::current();
  if (size > 1 && system.random().once_in(kWritesPerPart)) {
    size = 1 + system.random().below(size);
  } else if (system.process().has_full_disk) {
    errno = ENOSPC;
    return -1;
  }
  return REAL(write)(descriptor, data, size);
}

}  // namespace lockstep::simulation

extern "C" {

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (System::self() == nullptr) return REAL(open)(path, flags, mode);
  take_time();
  const int descriptor = REAL(open)(path, flags, mode);
  if (descriptor >= 0) System::current()->process().files.insert(descriptor);
  return descriptor;
}

int fsync(int descriptor) {
  if (is_own_file(descriptor)) take_time();
  return is_own_file(descriptor) ? 0 : REAL(fsync)(descriptor);  // nothing here survives the machine
}

int rename(const char* from, const char* to) noexcept {
  if (System::self() != nullptr) take_time();
  const int result = REAL(rename)(from, to);
  if (System::self() != nullptr) take_time();
  return result;
}

int unlink(const char* path) noexcept {
  if (System::self() != nullptr) take_time();
  return REAL(unlink)(path);
}

int flock(int descriptor, int operation) noexcept {
  if (!is_own_file(descriptor)) return REAL(flock)(descriptor, operation);
  for (;;) {
    take_time();
    const int result = REAL(flock)(descriptor, operation | LOCK_NB);
    if (result == 0 || errno != EWOULDBLOCK || (operation & LOCK_NB) != 0) return result;
  }
}

}  // extern "C"
