#pragma once

#include <cerrno>

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

  /// Writes what LOCKSTEP_FAIL_TRACE asks for, in a process that ends by _exit.
  static void write_trace() { call("lockstep_write_calls"); }
  /// How many calls have failed in this process.
  static int num_injected() { return of("lockstep_num_injected"); }
  /// Their errno, or error of their own.
  static int error() { return of("lockstep_injected_error"); }
  /// Whether they had to be repeated: they were interrupted, or cut short.
  static bool must_be_repeated() { return error() == EINTR || error() > kMostErrno; }

 private:
  static constexpr int kMostErrno = 4095;
  static int of(const char* name) {
    auto* const function = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, name));
    return function == nullptr ? 0 : function();
  }
  template <class... Arguments>
  static void call(const char* name, Arguments... arguments) {
    auto* const function = reinterpret_cast<void (*)(Arguments...)>(::dlsym(RTLD_DEFAULT, name));
    if (function != nullptr) function(arguments...);
  }
  static void arm(int armed) { call("lockstep_arm_calls", armed); }
};

}  // namespace lockstep::test
