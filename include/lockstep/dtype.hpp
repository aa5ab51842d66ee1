#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include <lockstep/detail/small_float.hpp>

#pragma GCC visibility push(default)

namespace lockstep {

/// Element types. The values are stable and used as table indices. They differ from other libraries' type
/// numbers: never cast them to such numbers.
enum class DType : std::uint8_t {
  f16,
  bf16,
  f32,
  f64,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,
  f8e4m3,
  f8e5m2
};

inline constexpr int kNumDTypes = 15;

// Floating-point formats below 32 bits: values that convert from and to float, in which their arithmetic is
// done. Conversions round once, to nearest, ties to even (detail/small_float.hpp).

/// IEEE binary16.
using f16 = detail::SmallFloat<std::uint16_t, 5, 10, true>;
/// bfloat16: the upper half of a float.
using bf16 = detail::SmallFloat<std::uint16_t, 8, 7, true>;
/// 8-bit, OCP "E4M3": no infinity, NaN is 0x7f/0xff, largest finite 448. Overflow gives NaN.
using f8e4m3 = detail::SmallFloat<std::uint8_t, 4, 3, false>;
/// 8-bit, OCP "E5M2": IEEE-like, largest finite 57344.
using f8e5m2 = detail::SmallFloat<std::uint8_t, 5, 2, true>;

/// @return bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);
/// @return the name used in messages and reports: "float16", "bfloat16", "float32", "int8", "uint64", "bool",
/// "float8_e4m3", …
[[nodiscard]] std::string_view name(DType dtype);
/// Parses the spellings of `name()`, and "f16", "half", "float", "double", "i32", …; case does not matter.
/// @throws InvalidArgument  the name is unknown.
[[nodiscard]] DType parse_dtype(std::string_view text);

[[nodiscard]] bool is_floating(DType dtype);  ///< f16, bf16, f32, f64 and both f8.
bool is_integer(DType dtype);                 ///< signed and unsigned, not boolean.
bool is_signed_integer(DType dtype);
[[nodiscard]] bool is_boolean(DType dtype);

std::ostream& operator<<(std::ostream& out, DType dtype);

namespace detail {
template <class T>
consteval int find_dtype() {
  if constexpr (std::same_as<T, f16>)
    return int(DType::f16);
  else if constexpr (std::same_as<T, bf16>)
    return int(DType::bf16);
  else if constexpr (std::same_as<T, f8e4m3>)
    return int(DType::f8e4m3);
  else if constexpr (std::same_as<T, f8e5m2>)
    return int(DType::f8e5m2);
  else if constexpr (std::same_as<T, float>)
    return int(DType::f32);
  else if constexpr (std::same_as<T, double>)
    return int(DType::f64);
  else if constexpr (std::same_as<T, bool>)
    return int(DType::boolean);
  else if constexpr (std::integral<T>) {
    constexpr int log2 = std::countr_zero(sizeof(T));
    return int(std::signed_integral<T> ? DType::i8 : DType::u8) + log2;
  } else
    return -1;
}
}  // namespace detail

/// A host type that a Tensor can hold.
template <class T>
concept Element = detail::find_dtype<std::remove_cv_t<T>>()
>= 0;

/// The DType of a host type. Host types of equal size and signedness share one (long and long long).
template <Element T>
inline constexpr DType dtype_of = static_cast<DType>(detail::find_dtype<std::remove_cv_t<T>>());

/// Calls `f.template operator()<T>()` with the host type of `dtype`. (i64 is std::int64_t and so on.)
template <class F>
decltype(auto) dispatch(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16: return f.template operator()<f16>();
    case DType::bf16: return f.template operator()<bf16>();
    case DType::f32: return f.template operator()<float>();
    case DType::f64: return f.template operator()<double>();
    case DType::i8: return f.template operator()<std::int8_t>();
    case DType::i16: return f.template operator()<std::int16_t>();
    case DType::i32: return f.template operator()<std::int32_t>();
    case DType::i64: return f.template operator()<std::int64_t>();
    case DType::u8: return f.template operator()<std::uint8_t>();
    case DType::u16: return f.template operator()<std::uint16_t>();
    case DType::u32: return f.template operator()<std::uint32_t>();
    case DType::u64: return f.template operator()<std::uint64_t>();
    case DType::boolean: return f.template operator()<bool>();
    case DType::f8e4m3: return f.template operator()<f8e4m3>();
    case DType::f8e5m2: break;
  }
  return f.template operator()<f8e5m2>();
}

/// The type in which the library adds values of T: float for floating types below 32 bits, T itself for float
/// and double, 64-bit integers for integers and booleans.
template <Element T>
using accumulator_t = std::conditional_t<
    std::same_as<T, double>, double,
    std::conditional_t<!std::integral<T>, float,
                       std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>>>;

/// The DType of accumulator_t, at run time.
[[nodiscard]] DType accumulator_dtype(DType dtype);

}  // namespace lockstep

#pragma GCC visibility pop
