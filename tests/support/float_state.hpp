#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lockstep::test {

/// The floating-point states in which threads may call the library: the initial one, one that flushes
/// subnormals, as libraries linked with -ffast-math do, or one that rounds in another direction.
enum class FloatState { usual, flushing, upward, towards_zero };

/// The thread's state, for a scope.
class FloatStateScope {
 public:
  explicit FloatStateScope(FloatState state) {
    std::fegetenv(&before_);
    if (state == FloatState::upward) std::fesetround(FE_UPWARD);
    if (state == FloatState::towards_zero) std::fesetround(FE_TOWARDZERO);
    if (state == FloatState::flushing) {
#if defined(__x86_64__)
      _mm_setcsr(_mm_getcsr() | 0x8040);  // results and operands
#elif defined(__aarch64__)
      std::uint64_t control;
      asm volatile("mrs %0, fpcr" : "=r"(control));
      asm volatile("msr fpcr, %0" ::"r"(control | 1u << 24));
#endif
    }
  }
  ~FloatStateScope() { std::fesetenv(&before_); }
  FloatStateScope(const FloatStateScope&) = delete;
  FloatStateScope& operator=(const FloatStateScope&) = delete;

  /// One third, rounded in the thread's current state.
  static float third() {
    volatile float one = 1, three = 3;
    return one / three;
  }
  /// Whether the thread's current state flushes subnormal results.
  static bool flushes() {
    volatile float small = 0x1p-126f;
    volatile float half = small * 0.5f;
    volatile float twice = half * 0x1p126f;
    return twice == 0;
  }

 private:
  std::fenv_t before_;
};

}  // namespace lockstep::test
