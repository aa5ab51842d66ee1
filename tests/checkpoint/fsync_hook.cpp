#include "checkpoint/fsync_hook.hpp"

#include <cerrno>
#include <memory>

#include <sys/syscall.h>
#include <unistd.h>

namespace {

std::mutex mutex;
std::shared_ptr<const lockstep::test::FsyncHook::Hook> current;  // guarded by mutex

std::shared_ptr<const lockstep::test::FsyncHook::Hook> hook() {
  const std::lock_guard lock(mutex);
  return current;
}

}  // namespace

// In the place of the C library's.
extern "C" int fsync(int file) {
  if (const auto called = hook()) {
    if (const int error = (*called)(); error != 0) {
      errno = error;
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace lockstep::test {

FsyncHook::FsyncHook(Hook hook) {
  const std::lock_guard lock(mutex);
  current = std::make_shared<const Hook>(std::move(hook));
}

FsyncHook::~FsyncHook() {
  const std::lock_guard lock(mutex);
  current.reset();
}

}  // namespace lockstep::test
