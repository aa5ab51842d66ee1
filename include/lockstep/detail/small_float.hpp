#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#pragma GCC visibility push(default)

namespace lockstep::detail {

/// `value` as a double that rounds to any format of fewer than 52 mantissa bits as the integer itself would:
/// if 53 bits do not hold it, the last bit records that bits were cut off (rounding to odd: Boldo and
/// Melquiond 2008).
template <std::integral I>
constexpr double to_double_sticky(I value) {
  if constexpr (sizeof(I) < 8) {
    return static_cast<double>(value);
  } else {
    const bool negative = std::cmp_less(value, 0);
    const std::uint64_t magnitude =
        negative ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    const std::uint64_t cut = (magnitude >> 11) | ((magnitude & 0x7ff) != 0);
    const double result =
        magnitude >> 53 == 0 ? static_cast<double>(magnitude) : static_cast<double>(cut) * 2048;
    return negative ? -result : result;
  }
}

/// A float as a double; correct even if the thread flushes subnormals.
constexpr double to_double(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude >= 0x00800000) return value;
  const double subnormal = static_cast<double>(magnitude) * 0x1p-149;
  return bits == magnitude ? subnormal : -subnormal;
}

/// `condition ? yes : no` of unsigned integers, without a branch. With a plain conditional the compiler may
/// move a floating-point operation into one arm; it may not move it back, and the loop around it then stays
/// scalar.
template <std::unsigned_integral U>
constexpr U select(bool condition, U yes, U no) {
  return no ^ ((yes ^ no) & (U(0) - U(condition)));
}

/// A floating-point format below 32 bits. Every conversion rounds to nearest, ties to even, in one step, and
/// keeps subnormals, infinities, and the sign and payload of NaN (which becomes quiet when narrowed).
///
/// Conversions are selections, not branches, and never touch a subnormal float, so that loops over them
/// vectorise and do not depend on flush-to-zero modes.
/// @tparam kHasInfinity  whether the special values are IEEE-like. Otherwise there is no infinity, NaN is all
/// ones, and overflow gives NaN.
template <class Storage, int kExponentBits, int kMantissaBits, bool kHasInfinity>
struct SmallFloat {
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr Storage kSignBit = 1 << (kExponentBits + kMantissaBits);
  static constexpr Storage kMantissaMask = (1 << kMantissaBits) - 1;
  static constexpr Storage kExponentMask = kSignBit - 1 - kMantissaMask;
  /// Infinity if the format has one, else NaN: the first value above the largest finite number.
  static constexpr Storage kOverflow = kHasInfinity ? kExponentMask : kSignBit - 1;
  static constexpr Storage kQuietNan =
      kHasInfinity ? kExponentMask | (1 << (kMantissaBits - 1)) : kSignBit - 1;

  Storage bits = 0;

  SmallFloat() = default;
  // The conversion is implicit because arithmetic on small floats is float arithmetic.
  constexpr SmallFloat(float value) : bits(round<float, std::uint32_t>(value)) {}
  constexpr SmallFloat(double value) : bits(round<double, std::uint64_t>(value)) {}
  template <std::integral I>
  constexpr SmallFloat(I value) : SmallFloat(to_double_sticky(value)) {}

  constexpr operator float() const {
    const std::uint32_t sign = std::uint32_t(bits & kSignBit) << (31 - kExponentBits - kMantissaBits);
    const std::uint32_t magnitude = bits & (kSignBit - 1);
    const std::uint32_t shifted = magnitude << (23 - kMantissaBits);
    if constexpr (kExponentBits == 8) return std::bit_cast<float>(sign | shifted);  // a float's upper bits

    constexpr std::uint32_t kRebias = std::uint32_t(127 - kBias) << 23;
    // Subnormals: give them the exponent of the smallest normal number, whose hidden bit the subtraction
    // takes away.
    constexpr std::uint32_t kMinNormal = kRebias + (1u << 23);
    const float subnormal = std::bit_cast<float>(shifted + kMinNormal) - std::bit_cast<float>(kMinNormal);
    const std::uint32_t finite =
        select(magnitude <= kMantissaMask, std::bit_cast<std::uint32_t>(subnormal), shifted + kRebias);
    const std::uint32_t result = select(magnitude >= kOverflow, shifted | 0x7f800000, finite);
    return std::bit_cast<float>(sign | result);
  }

  static constexpr SmallFloat from_bits(Storage bits) {
    SmallFloat result;
    result.bits = bits;
    return result;
  }

 private:
  /// @tparam Float  float or double; Bits is the unsigned integer of its size.
  template <class Float, class Bits>
  static constexpr Storage round(Float value) {
    constexpr int kWideMantissaBits = std::numeric_limits<Float>::digits - 1;
    constexpr int kWideBias = std::numeric_limits<Float>::max_exponent - 1;
    constexpr int kShift = kWideMantissaBits - kMantissaBits;
    constexpr Bits kWideInfinity = std::bit_cast<Bits>(std::numeric_limits<Float>::infinity());

    const Bits wide = std::bit_cast<Bits>(value);
    const Bits magnitude = wide & (~Bits(0) >> 1);
    const Storage sign = static_cast<Storage>(wide >> (8 * sizeof(Bits) - 1))
                         << (kExponentBits + kMantissaBits);
    const Bits nan = kQuietNan | ((magnitude >> kShift) & kMantissaMask);

    // Half a unit less one, and one more if the result would be odd; a carry out of the mantissa is the next
    // exponent.
    constexpr Bits kRebias = Bits(kWideBias - kBias) << kWideMantissaBits;
    Bits result =
        (magnitude - kRebias + (Bits(1) << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1)) >> kShift;
    if constexpr (kWideBias != kBias) {
      // Below the smallest normal number the unit is fixed: added to the power of two whose own unit that is,
      // the hardware rounds to it. (Equal exponent ranges need none of this: the wide number is then
      // subnormal too.)
      constexpr Bits kMinNormal = kRebias + (Bits(1) << kWideMantissaBits);
      constexpr Bits kMagic = kMinNormal + (Bits(kShift) << kWideMantissaBits);
      const Float fixed = std::bit_cast<Float>(magnitude) + std::bit_cast<Float>(kMagic);
      result = select(magnitude < kMinNormal, std::bit_cast<Bits>(fixed) - kMagic, result);
    }
    result = select(result > kOverflow, Bits(kOverflow), result);
    return sign | static_cast<Storage>(select(magnitude > kWideInfinity, nan, result));
  }
};

}  // namespace lockstep::detail

#pragma GCC visibility pop

/// The properties that kernels ask of a number type: its extremes and special values.
template <class Storage, int kExponentBits, int kMantissaBits, bool kHasInfinity>
class std::numeric_limits<lockstep::detail::SmallFloat<Storage, kExponentBits, kMantissaBits, kHasInfinity>> {
  using T = lockstep::detail::SmallFloat<Storage, kExponentBits, kMantissaBits, kHasInfinity>;

 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool is_iec559 = kHasInfinity;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool has_infinity = kHasInfinity;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = kHasInfinity;
  static constexpr int radix = 2;
  static constexpr int digits = kMantissaBits + 1;
  static constexpr int max_exponent = T::kBias + (kHasInfinity ? 1 : 2);
  static constexpr int min_exponent = 2 - T::kBias;

  static constexpr T max() noexcept { return T::from_bits(T::kOverflow - 1); }
  static constexpr T lowest() noexcept { return T::from_bits(T::kSignBit | (T::kOverflow - 1)); }
  static constexpr T min() noexcept {
    return T::from_bits(T::kMantissaMask + 1);
  }  ///< Smallest positive normal number.
  static constexpr T denorm_min() noexcept { return T::from_bits(1); }
  /// Zero if the format has no infinity, as the standard says.
  static constexpr T infinity() noexcept { return T::from_bits(kHasInfinity ? T::kOverflow : 0); }
  static constexpr T quiet_NaN() noexcept { return T::from_bits(T::kQuietNan); }
  static constexpr T epsilon() noexcept { return T(1.0f / (1 << kMantissaBits)); }
};
