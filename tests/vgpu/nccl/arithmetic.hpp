// Element types and reductions of NCCL: small floating-point types are accumulated in float, ranks in order.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace vgpu::nccl {

struct Scalar {
  unsigned char bytes[8] = {};
  const void* device = nullptr;  // read from there when the operation runs
};

// By ncclDataType_t.
inline std::size_t type_bytes(int type) {
  constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < 12 ? sizes[type] : 0;
}

// A floating-point format of `exponent` and `mantissa` bits; rounding to nearest even. Formats without
// infinity (fp8 e4m3) use the top exponent for numbers, except all ones for NaN. `saturate`: overflow gives
// the largest number.
template <class Storage, int exponent, int mantissa, bool infinity, bool saturate>
struct Small {
  Storage bits;
  static constexpr int bias = (1 << (exponent - 1)) - 1;
  static constexpr int top = (1 << exponent) - 1;
  static constexpr unsigned mantissa_mask = (1u << mantissa) - 1;
  static constexpr unsigned largest = infinity ? (static_cast<unsigned>(top) << mantissa) - 1
                                               : (static_cast<unsigned>(top) << mantissa) + mantissa_mask - 1;

  float value() const {
    const unsigned all = bits;
    const bool negative = (all >> (exponent + mantissa)) & 1;
    const int e = static_cast<int>(all >> mantissa) & top;
    const unsigned m = all & mantissa_mask;
    float result;
    if (infinity && e == top)
      result = m ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    else if (!infinity && e == top && m == mantissa_mask)
      result = std::numeric_limits<float>::quiet_NaN();
    else if (e == 0)
      result = std::ldexp(static_cast<float>(m), 1 - bias - mantissa);
    else
      result = std::ldexp(static_cast<float>(m | (1u << mantissa)), e - bias - mantissa);
    return negative ? -result : result;
  }

  static Small from(float value) {
    const unsigned sign = std::bit_cast<std::uint32_t>(value) >> 31 << (exponent + mantissa);
    const unsigned infinite = saturate   ? largest
                              : infinity ? static_cast<unsigned>(top) << mantissa
                                         : (static_cast<unsigned>(top) << mantissa) | mantissa_mask;
    if (std::isnan(value))
      return {static_cast<Storage>((static_cast<unsigned>(top) << mantissa) | mantissa_mask)};
    const float magnitude = std::fabs(value);
    if (std::isinf(magnitude)) return {static_cast<Storage>(sign | infinite)};
    if (magnitude == 0) return {static_cast<Storage>(sign)};
    int e = std::ilogb(magnitude);
    if (e < 1 - bias) e = 1 - bias;
    // In units of the last place, rounded to nearest even.
    const double scaled = std::ldexp(static_cast<double>(magnitude), mantissa - e);
    auto units = static_cast<std::uint64_t>(scaled);
    const double rest = scaled - static_cast<double>(units);
    if (rest > 0.5 || (rest == 0.5 && (units & 1))) ++units;
    std::uint64_t code = units;
    if (units >= (1u << mantissa))
      code = (static_cast<std::uint64_t>(e + bias) << mantissa) + (units - (1u << mantissa));
    if (code > largest) code = infinite;
    return {static_cast<Storage>(sign | code)};
  }
};

using Half = Small<std::uint16_t, 5, 10, true, false>;
using Bfloat = Small<std::uint16_t, 8, 7, true, false>;
using E4m3 = Small<std::uint8_t, 4, 3, false, true>;
using E5m2 = Small<std::uint8_t, 5, 2, true, true>;

template <class T>
struct Traits {
  using Accumulator = T;
  static T load(const char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static void store(char* at, T value) { std::memcpy(at, &value, sizeof value); }
};
template <class Storage, int e, int m, bool i, bool s>
struct Traits<Small<Storage, e, m, i, s>> {
  using Accumulator = float;
  using Type = Small<Storage, e, m, i, s>;
  static float load(const char* at) {
    Type value;
    std::memcpy(&value.bits, at, sizeof value.bits);
    return value.value();
  }
  static void store(char* at, float value) {
    const Type result = Type::from(value);
    std::memcpy(at, &result.bits, sizeof result.bits);
  }
};

template <class A>
A combine(int op, A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using U = std::make_unsigned_t<A>;
    switch (op) {
      case 1:
        return static_cast<A>(static_cast<std::uint64_t>(static_cast<U>(a)) *
                              static_cast<std::uint64_t>(static_cast<U>(b)));
      case 2: return a > b ? a : b;
      case 3: return a < b ? a : b;
      default: return static_cast<A>(static_cast<U>(a) + static_cast<U>(b));
    }
  } else {
    switch (op) {
      case 1: return a * b;
      case 2: return std::isnan(a) ? b : std::isnan(b) ? a : a > b ? a : b;
      case 3: return std::isnan(a) ? b : std::isnan(b) ? a : a < b ? a : b;
      default: return a + b;
    }
  }
}

// op: 0 sum, 1 prod, 2 max, 3 min, 4 avg, 5 sum of inputs each multiplied by its rank's scalar.
template <class T>
void reduce_as(int op, const std::vector<const char*>& inputs, const std::vector<Scalar>& scalars,
               char* result, std::size_t count) {
  using Trait = Traits<T>;
  using A = typename Trait::Accumulator;
  const std::size_t size = sizeof(T);
  std::vector<A> factors;
  if (op == 5)
    for (const Scalar& scalar : scalars)
      factors.push_back(Trait::load(reinterpret_cast<const char*>(scalar.bytes)));
  const A ranks = static_cast<A>(inputs.size());
  for (std::size_t index = 0; index < count; ++index) {
    A sum = Trait::load(inputs[0] + index * size);
    if (op == 5) sum = combine<A>(1, sum, factors[0]);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) {
      A next = Trait::load(inputs[rank] + index * size);
      if (op == 5) next = combine<A>(1, next, factors[rank]);
      sum = combine<A>(op == 5 || op == 4 ? 0 : op, sum, next);
    }
    if (op == 4) sum = static_cast<A>(sum / ranks);
    Trait::store(result + index * size, sum);
  }
}

inline void reduce(int type, int op, const std::vector<const char*>& inputs,
                   const std::vector<Scalar>& scalars, char* result, std::size_t count) {
  switch (type) {
    case 0: return reduce_as<std::int8_t>(op, inputs, scalars, result, count);
    case 1: return reduce_as<std::uint8_t>(op, inputs, scalars, result, count);
    case 2: return reduce_as<std::int32_t>(op, inputs, scalars, result, count);
    case 3: return reduce_as<std::uint32_t>(op, inputs, scalars, result, count);
    case 4: return reduce_as<std::int64_t>(op, inputs, scalars, result, count);
    case 5: return reduce_as<std::uint64_t>(op, inputs, scalars, result, count);
    case 6: return reduce_as<Half>(op, inputs, scalars, result, count);
    case 7: return reduce_as<float>(op, inputs, scalars, result, count);
    case 8: return reduce_as<double>(op, inputs, scalars, result, count);
    case 9: return reduce_as<Bfloat>(op, inputs, scalars, result, count);
    case 10: return reduce_as<E4m3>(op, inputs, scalars, result, count);
    case 11: return reduce_as<E5m2>(op, inputs, scalars, result, count);
  }
}

}  // namespace vgpu::nccl
