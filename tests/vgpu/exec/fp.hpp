// Small floating-point formats, and rounding that the host does not offer directly.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "exec/ir.hpp"

namespace vgpu::ptx {

enum class Round : u8 { Nearest, Zero, Down, Up, Away };  // Away: to nearest, ties away from zero

struct half {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

constexpr float kNaN32 = std::bit_cast<float>(0x7fffffffu);

inline float canonical(float x) { return x == x ? x : kNaN32; }
inline double canonical(double x) { return x; }
// Subnormals to zero, as .ftz asks.
inline float flush(float x) {
  u32 b = std::bit_cast<u32>(x);
  return std::bit_cast<float>((b & 0x7f800000u) == 0 ? b & 0x80000000u : b);
}
inline double flush(double x) { return x; }

inline float to_float(half h) {
  u32 magnitude = (h.bits & 0x7fffu) << 13;
  float f = std::bit_cast<float>(magnitude) * 0x1p112f;  // rebias the exponent; subnormals come out right too
  u32 b = (h.bits & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : std::bit_cast<u32>(f);
  return std::bit_cast<float>(b | (h.bits & 0x8000u) << 16);
}
inline float to_float(bf16 h) { return std::bit_cast<float>(static_cast<u32>(h.bits) << 16); }
inline float to_float(float x) { return x; }
inline double to_double(half h) { return to_float(h); }
inline double to_double(bf16 h) { return to_float(h); }

// To nearest even.
inline half to_half(float x) {
  u32 b = std::bit_cast<u32>(x), sign = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  u32 normal = (a + 0xc8000fffu + (a >> 13 & 1)) >> 13;
  u32 tiny = std::bit_cast<u32>(std::bit_cast<float>(a) + 0.5f) - 0x3f000000u;  // the adder rounds at 2^-24
  u32 r = a < 0x38800000u ? tiny : normal;
  r = a >= 0x47800000u ? 0x7c00u : r;
  r = a > 0x7f800000u ? 0x7fffu : r | sign;
  return {static_cast<u16>(r)};
}
inline bf16 to_bf16(float x) {
  u32 b = std::bit_cast<u32>(x);
  u32 r = (b + 0x7fffu + (b >> 16 & 1)) >> 16;
  return {static_cast<u16>(x == x ? r : 0x7fffu)};
}

// A format of `exponent` and `mantissa` bits under a sign. `finite_only`: no infinity, all ones is NaN
// (e4m3).
struct Format {
  int exponent, mantissa;
  bool finite_only = false;
  int bias() const { return (1 << (exponent - 1)) - 1; }
  u32 infinity() const { return ((1u << exponent) - 1) << mantissa; }
  u32 largest() const { return finite_only ? infinity() + (1u << mantissa) - 2 : infinity() - 1; }
};
constexpr Format kHalf{5, 10}, kBf16{8, 7}, kTf32{8, 10}, kE4m3{4, 3, true}, kE5m2{5, 2};

// x rounded into the format; overflow gives infinity or, with `saturate`, the largest number. NaN is all
// ones.
u32 round_to(double x, const Format& f, Round mode, bool saturate);
double value_of(u32 bits, const Format& f);

// a + b in double, rounded to odd: rounding that once more into a format of at most 51 bits is as if done
// once.
inline double add_odd(double a, double b) {
  double s = a + b;
  double t = s - a;
  double e = (a - (s - t)) + (b - t);
  u64 bits = std::bit_cast<u64>(s);
  if (e != 0 && std::isfinite(s) && !(bits & 1)) bits += ((e > 0) == (s > 0)) ? 1 : -1ull;
  return std::bit_cast<double>(bits);
}
inline float float_odd(double d) {
  float f = static_cast<float>(d);
  u32 b = std::bit_cast<u32>(f);
  double back = f;
  u32 inward = b - 1, outward = b + 1;
  bool magnitude_less = std::fabs(d) < std::fabs(back);
  u32 moved = magnitude_less ? inward : outward;
  b = (back != d && d == d && !(b & 1)) ? moved : b;
  return std::bit_cast<float>(b);
}
inline half half_of(double x) { return {static_cast<u16>(round_to(x, kHalf, Round::Nearest, false))}; }
inline bf16 bf16_of(double x) { return {static_cast<u16>(round_to(x, kBf16, Round::Nearest, false))}; }

// f32 and f64 operations under a rounding mode (ops_round.cpp).
float add_round(float a, float b, Round m);
double add_round(double a, double b, Round m);
float mul_round(float a, float b, Round m);
double mul_round(double a, double b, Round m);
float fma_round(float a, float b, float c, Round m);
double fma_round(double a, double b, double c, Round m);
float div_round(float a, float b, Round m);
double div_round(double a, double b, Round m);
float sqrt_round(float a, Round m);
double sqrt_round(double a, Round m);
float float_of(double a, Round m);
float float_of(s64 a, Round m);
float float_of(u64 a, Round m);
double double_of(s64 a, Round m);
double double_of(u64 a, Round m);
// To an integral value.
double integral(double a, Round m);
float integral(float a, Round m);

}  // namespace vgpu::ptx
