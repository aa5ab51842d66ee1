#include "detail/thread_end.hpp"

namespace lockstep::detail {

namespace {

thread_local bool begun = false;

struct Watcher {
  ~Watcher() { begun = true; }
};

}  // namespace

void ThreadEnd::watch() noexcept {
  thread_local Watcher watcher;
  static_cast<void>(watcher);
}

bool ThreadEnd::has_begun() noexcept { return begun; }

}  // namespace lockstep::detail
