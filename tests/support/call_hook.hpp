#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <catch2/catch_test_macros.hpp>
#include <dlfcn.h>

namespace lockstep::test {

/// Sees the calls that the library makes of CUDA, NCCL and cuBLAS on virtual GPUs, as long as it lives; skips
/// the test on others. One at a time.
class CallHook {
 public:
  /// Runs before and after each call, in the call's thread, and for its own calls, too. If it returns an
  /// error, not 0, before a call, the call fails with it.
  using Hook = std::function<int(std::string_view name, bool is_over)>;

  explicit CallHook(Hook hook) {
    if (on_call() == nullptr) SKIP("needs virtual GPUs");
    current() = std::move(hook);
    on_call()([](const char* name, int is_over) { return current()(name, is_over != 0); });
  }
  /// Makes all calls of that name fail with `error`.
  static CallHook failing(std::string call, int error) {
    return CallHook([call = std::move(call), error](std::string_view name, bool is_over) {
      return name == call && !is_over ? error : 0;
    });
  }
  ~CallHook() { on_call()(nullptr); }
  CallHook(const CallHook&) = delete;
  CallHook& operator=(const CallHook&) = delete;

 private:
  using OnCall = void (*)(int (*)(const char*, int));
  static OnCall on_call() { return reinterpret_cast<OnCall>(::dlsym(RTLD_DEFAULT, "vgpu_on_call")); }
  static Hook& current() {
    static Hook hook;
    return hook;
  }
};

}  // namespace lockstep::test
