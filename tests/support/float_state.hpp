#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace lockstep::test {

/// What a thread's floating-point state may be when it calls the library: as a process begins, flushing
/// subnormals as libraries linked with -ffast-math make it, or rounding in another direction.
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

  /// A third as the thread, as it is now, rounds it.
  static float third() {
    volatile float one = 1, three = 3;
    return one / three;
  }
  /// Whether the thread, as it is now, flushes results that are subnormal.
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
