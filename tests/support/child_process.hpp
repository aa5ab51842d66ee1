#pragma once

#include <functional>

#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::test {

inline constexpr int kThrew = 111;

/// Runs f in a child process. @return the status that f gives, or kThrew, or minus the signal that ended the
/// process; an alarm ends one that hangs.
inline int in_child(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    try {
      ::_exit(f());
    } catch (...) {
      ::_exit(kThrew);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace lockstep::test
