// What a checkpoint calls, and memory that processes share, in place of the C library's. The files are real;
// calls take time, in which the process may be killed, write parts, and find the disk full.
#include <cctype>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simulation/system/files.hpp"
#include "simulation/system/real.hpp"
#include "simulation/system/system.hpp"

using namespace lockstep::simulation;

namespace lockstep::simulation {
namespace {

constexpr Time kLongestFileTime = 2 * kMillisecond;
constexpr std::uint64_t kWritesPerPart = 4;

/// Memory that is a file, as one process has mapped it.
struct Mapping {
  std::size_t size_bytes;
  ino_t file;
  off_t offset;
};
std::map<const char*, Mapping>& mappings() {
  static std::map<const char*, Mapping> all;
  return all;
}

/// All processes here have the descriptors of one: "/proc/1002/fd/7" is that of this program.
std::string real_path(const char* path) {
  constexpr std::string_view kProcesses = "/proc/";
  const std::string_view given = path;
  const std::size_t end = given.find("/fd/");
  const bool is_other =
      given.starts_with(kProcesses) && end != given.npos && std::isdigit(given[kProcesses.size()]) != 0;
  return is_other ? "/proc/self" + std::string(given.substr(end)) : std::string(given);
}

void take_time() {
  System& system = *System::current();
  system.sleep_until(system.now() + system.random().between(10 * kMicrosecond, kLongestFileTime));
}

bool is_own_file(int descriptor) {
  return System::self() != nullptr && System::current()->process().files.contains(descriptor);
}

}  // namespace

const void* shared_place(const void* address) {
  const char* const at = static_cast<const char*>(address);
  auto found = mappings().upper_bound(at);
  if (found == mappings().begin()) return address;
  const auto& [begin, mapping] = *--found;
  const auto offset = static_cast<std::size_t>(at - begin);
  if (offset >= mapping.size_bytes) return address;
  constexpr int kOffsetBits = 40;
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(mapping.file) << kOffsetBits |
                                       (static_cast<std::uintptr_t>(mapping.offset) + offset));
}

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
  const int descriptor = REAL(open)(real_path(path).c_str(), flags, mode);
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

ssize_t readlink(const char* path, char* buffer, size_t size) noexcept {
  return REAL(readlink)(System::self() == nullptr ? path : real_path(path).c_str(), buffer, size);
}

void* mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  void* const memory = REAL(mmap)(address, size, protection, flags, descriptor, offset);
  struct stat status {};
  if (System::self() != nullptr && memory != MAP_FAILED && descriptor >= 0 && (flags & MAP_SHARED) != 0 &&
      ::fstat(descriptor, &status) == 0)
    mappings()[static_cast<const char*>(memory)] = {size, status.st_ino, offset};
  return memory;
}

int munmap(void* address, size_t size) noexcept {
  if (System::self() != nullptr) mappings().erase(static_cast<const char*>(address));
  return REAL(munmap)(address, size);
}

}  // extern "C"
