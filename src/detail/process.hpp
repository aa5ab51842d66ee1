#pragma once

#include <unistd.h>

namespace lockstep::detail {

/// The process that makes an object. A fork of it has a copy of the object, but of its threads none: there
/// nothing may wait for them, nor for what they hold.
class Process {
 public:
  /// Whether the calling process is a fork of that one.
  bool is_forked() const noexcept { return pid_ != ::getpid(); }

 private:
  pid_t pid_ = ::getpid();
};

}  // namespace lockstep::detail
