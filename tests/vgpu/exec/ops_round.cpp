// Arithmetic under the host's other rounding modes. Compiled with -frounding-math.
#include <cfenv>

#include "exec/fp.hpp"

namespace vgpu::ptx {

namespace {
class Mode {
 public:
  explicit Mode(Round m) : old_(std::fegetround()) {
    static constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
    std::fesetround(modes[static_cast<int>(m)]);
  }
  ~Mode() { std::fesetround(old_); }

 private:
  int old_;
};
// Keeps the compiler from moving the operation out of the mode's scope.
template <class T>
T pinned(T x) {
  asm volatile("" : "+x"(x));
  return x;
}
template <class T, class F>
T under(Round m, F f) {
  if (m == Round::Nearest) return f();
  Mode mode(m);
  T r = f();
  return pinned(r);
}
}  // namespace

float add_round(float a, float b, Round m) {
  return under<float>(m, [&] { return pinned(a) + pinned(b); });
}
double add_round(double a, double b, Round m) {
  return under<double>(m, [&] { return pinned(a) + pinned(b); });
}
float mul_round(float a, float b, Round m) {
  return under<float>(m, [&] { return pinned(a) * pinned(b); });
}
double mul_round(double a, double b, Round m) {
  return under<double>(m, [&] { return pinned(a) * pinned(b); });
}
float fma_round(float a, float b, float c, Round m) {
  return under<float>(m, [&] { return std::fma(pinned(a), pinned(b), pinned(c)); });
}
double fma_round(double a, double b, double c, Round m) {
  return under<double>(m, [&] { return std::fma(pinned(a), pinned(b), pinned(c)); });
}
float div_round(float a, float b, Round m) {
  return under<float>(m, [&] { return pinned(a) / pinned(b); });
}
double div_round(double a, double b, Round m) {
  return under<double>(m, [&] { return pinned(a) / pinned(b); });
}
float sqrt_round(float a, Round m) {
  return under<float>(m, [&] { return std::sqrt(pinned(a)); });
}
double sqrt_round(double a, Round m) {
  return under<double>(m, [&] { return std::sqrt(pinned(a)); });
}
float float_of(double a, Round m) {
  return under<float>(m, [&] { return static_cast<float>(pinned(a)); });
}

namespace {
template <class T>
T opaque(T x) {
  asm volatile("" : "+r"(x));
  return x;
}
}  // namespace
float float_of(s64 a, Round m) {
  return under<float>(m, [&] { return static_cast<float>(opaque(a)); });
}
double double_of(s64 a, Round m) {
  return under<double>(m, [&] { return static_cast<double>(opaque(a)); });
}
// The compiler's own code for unsigned numbers adds two halves, which another rounding mode would spoil.
namespace {
template <class T>
T unsigned_to(u64 a, Round m) {
  if (!(a >> 63)) return under<T>(m, [&] { return static_cast<T>(static_cast<s64>(opaque(a))); });
  u64 halved = a >> 1 | (a & 1);  // sticky
  return 2 * under<T>(m, [&] { return static_cast<T>(static_cast<s64>(opaque(halved))); });
}
}  // namespace
float float_of(u64 a, Round m) { return unsigned_to<float>(a, m); }
double double_of(u64 a, Round m) { return unsigned_to<double>(a, m); }

double integral(double a, Round m) {
  switch (m) {
    case Round::Nearest: return std::nearbyint(a);
    case Round::Zero: return std::trunc(a);
    case Round::Down: return std::floor(a);
    case Round::Up: return std::ceil(a);
    case Round::Away: return std::round(a);
  }
  return a;
}
float integral(float a, Round m) {
  switch (m) {
    case Round::Nearest: return std::nearbyint(a);
    case Round::Zero: return std::trunc(a);
    case Round::Down: return std::floor(a);
    case Round::Up: return std::ceil(a);
    case Round::Away: return std::round(a);
  }
  return a;
}

u32 round_to(double x, const Format& f, Round mode, bool saturate) {
  const u32 sign = std::signbit(x) ? 1u << (f.exponent + f.mantissa) : 0;
  if (std::isnan(x)) return (1u << (f.exponent + f.mantissa)) - 1;
  double a = std::fabs(x);
  const u32 overflow = saturate        ? f.largest()
                       : f.finite_only ? f.infinity() + (1u << f.mantissa) - 1
                                       : f.infinity();
  if (std::isinf(a)) return sign | overflow;
  if (a == 0) return sign;
  int e;
  std::frexp(a, &e);  // a = m * 2^e, m in [0.5, 1)
  int exponent = std::max(e - 1, 1 - f.bias());
  double scaled = std::ldexp(a, f.mantissa - exponent);  // in units of the last place; exact
  double down = std::floor(scaled), rest = scaled - down;
  bool up = false;
  switch (mode) {
    case Round::Nearest: up = rest > 0.5 || (rest == 0.5 && std::fmod(down, 2) != 0); break;
    case Round::Away: up = rest >= 0.5; break;
    case Round::Zero: break;
    case Round::Down: up = sign && rest > 0; break;
    case Round::Up: up = !sign && rest > 0; break;
  }
  u64 units = static_cast<u64>(down) + up;
  // With the exponent field of 1 for subnormals, their missing leading bit lowers it to 0 by itself.
  u64 bits = (static_cast<u64>(exponent + f.bias() - 1) << f.mantissa) + units;
  if (bits > f.largest()) {
    bool to_zero = mode == Round::Zero || (mode == Round::Down && !sign) || (mode == Round::Up && sign);
    return sign | (to_zero ? f.largest() : overflow);
  }
  return sign | static_cast<u32>(bits);
}

double value_of(u32 bits, const Format& f) {
  u32 m = bits & ((1u << f.mantissa) - 1), e = bits >> f.mantissa & ((1u << f.exponent) - 1);
  bool negative = bits >> (f.exponent + f.mantissa) & 1;
  double v;
  if (e == (1u << f.exponent) - 1 && (!f.finite_only || m == (1u << f.mantissa) - 1)) {
    v = m ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (e == 0) {
    v = std::ldexp(static_cast<double>(m), 1 - f.bias() - f.mantissa);
  } else {
    v = std::ldexp(static_cast<double>(m + (1u << f.mantissa)), static_cast<int>(e) - f.bias() - f.mantissa);
  }
  return negative ? -v : v;
}

}  // namespace vgpu::ptx
