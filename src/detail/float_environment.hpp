#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif defined(__aarch64__)
#include <cstdint>
#else
#include <cfenv>
#endif

namespace lockstep::detail {

/// The floating-point environment in which the library computes, for a scope on one thread: rounding to
/// nearest, subnormals kept, no traps. The threads of replicas and of callers then give the same bits,
/// whatever environment an application, or a library linked with -ffast-math, has set on them. The scope's
/// end restores the thread's environment. It costs only a register read if the environment needs no change.
class FloatEnvironment {
 public:
  FloatEnvironment() noexcept : outer_(get()) {
    if (is_changed()) set(kOwn);
  }
  ~FloatEnvironment() {
    if (is_changed()) set(outer_);
  }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  // The compiler must not move memory accesses out of the scope.
#if defined(__x86_64__)
  using Register = unsigned;
  static constexpr Register kOwn = 0x1f80;       // MXCSR at a process's start
  static constexpr Register kControls = ~0x3fu;  // without the flags of past exceptions
  static Register get() noexcept { return _mm_getcsr(); }
  static void set(Register value) noexcept {
    asm volatile("" ::: "memory");
    _mm_setcsr(value);
    asm volatile("" ::: "memory");
  }
#elif defined(__aarch64__)
  using Register = std::uint64_t;
  static constexpr Register kOwn = 0;  // FPCR at a process's start
  static constexpr Register kControls = ~Register{0};
  static Register get() noexcept {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void set(Register value) noexcept { asm volatile("msr fpcr, %0" ::"r"(value) : "memory"); }
#else
  using Register = int;
  static constexpr Register kOwn = FE_TONEAREST;
  static constexpr Register kControls = ~0;
  static Register get() noexcept { return std::fegetround(); }
  static void set(Register value) noexcept { std::fesetround(value); }
#endif
  bool is_changed() const noexcept { return (outer_ & kControls) != kOwn; }

  const Register outer_;
};

}  // namespace lockstep::detail
