#pragma once

#include <dlfcn.h>

namespace lockstep::test {

/// While it lives, the calls that the environment names fail (failing_calls.cpp), if the library is loaded
/// before others. On all threads; one at a time.
class FailingCalls {
 public:
  FailingCalls() { arm(1); }
  ~FailingCalls() { arm(0); }
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  /// How many calls have failed in this process.
  static int num_injected() { return of("lockstep_num_injected"); }
  /// Their errno, or error of their own; -1 where they were cut short.
  static int error() { return of("lockstep_injected_error"); }

 private:
  static int of(const char* name) {
    auto* const function = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, name));
    return function == nullptr ? 0 : function();
  }
  static void arm(int armed) {
    auto* const function = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "lockstep_arm_calls"));
    if (function != nullptr) function(armed);
  }
};

}  // namespace lockstep::test
