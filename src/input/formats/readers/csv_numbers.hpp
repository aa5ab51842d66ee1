#pragma once

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <type_traits>

/// The numbers of CSV fields.
namespace lockstep::detail {

/// The text without blanks around it.
inline std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// A number that fills the text.
template <class T>
std::errc parse_whole(std::string_view text, T& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end != text.data() + text.size() ? std::errc::invalid_argument : error;
}

/// Whether a number is out of range because it is too close to 0. @pre std::from_chars reports it out of
/// range, so that the place of its first digit decides.
inline bool is_tiny(std::string_view text) {
  const std::size_t end = std::min(text.find_first_of("eE"), text.size());
  const std::string_view digits = text.substr(0, end);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const auto place =
      static_cast<std::int64_t>(point) - static_cast<std::int64_t>(digits.find_first_of("123456789"));
  std::string_view exponent = text.substr(std::min(end + 1, text.size()));
  std::int64_t value = 0;
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  if (std::from_chars(exponent.data(), exponent.data() + exponent.size(), value).ec ==
      std::errc::result_out_of_range)
    return exponent.starts_with('-');
  return value < -place;
}

/// Parses the text of a number, or of a boolean.
template <class T>
std::errc parse_number(std::string_view text, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    const bool is_true = text == "1" || text == "true";
    value = is_true;
    return is_true || text == "0" || text == "false" ? std::errc() : std::errc::invalid_argument;
  } else if constexpr (std::is_integral_v<T>) {
    return parse_whole(text, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    const std::errc error = parse_whole(text, value);
    if (error != std::errc::result_out_of_range || !is_tiny(text)) return error;
    value = text.starts_with('-') ? -T(0) : T(0);
    return std::errc();
  } else {
    float wide = 0;
    const std::errc error = parse_number(text, wide);
    value = T(wide);
    const bool fits = std::isfinite(static_cast<float>(value)) || !std::isfinite(wide);
    return error != std::errc() || fits ? error : std::errc::result_out_of_range;
  }
}

/// The digits at the front of the text as a number, after those of `number`; takes them.
inline void take_digits(std::string_view& text, std::uint64_t& number) {
  std::size_t size = 0;
  for (; size < text.size(); ++size) {
    const auto digit = static_cast<unsigned char>(text[size] - '0');
    if (digit > 9) break;
    number = 10 * number + digit;
  }
  text.remove_prefix(size);
}

/// Reads most numbers faster than std::from_chars, and as it does: short integers; and decimals of up to 15
/// digits and small exponents, of which the digits and the power of ten are exact as doubles, so that one
/// operation rounds once (Clinger, "How to read floating point numbers accurately", 1990).
/// @return false: it is none of these, and std::from_chars decides.
template <class T>
bool parse_plain(std::string_view text, T& value) {
  constexpr std::size_t kMostDigits = 15;
  constexpr double kPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if constexpr (std::is_same_v<T, bool> || !std::is_arithmetic_v<T>) {
    return false;
  } else {
    const bool is_negative = text.starts_with('-');
    if (is_negative) text.remove_prefix(1);
    std::uint64_t digits = 0;
    const std::size_t size = text.size();
    if constexpr (std::is_integral_v<T>) {
      if (size == 0 || size > kMostDigits || (is_negative && std::is_unsigned_v<T>)) return false;
      take_digits(text, digits);
      const auto number = static_cast<std::int64_t>(is_negative ? 0 - digits : digits);
      value = static_cast<T>(number);
      return text.empty() && static_cast<std::int64_t>(value) == number;
    } else {
      static_assert(sizeof(T) <= sizeof(double));
      take_digits(text, digits);
      std::size_t num_digits = size - text.size();
      std::int64_t exponent = 0;
      if (text.starts_with('.')) {
        text.remove_prefix(1);
        const std::size_t behind = text.size();
        take_digits(text, digits);
        exponent = -static_cast<std::int64_t>(behind - text.size());
        num_digits += behind - text.size();
      }
      if (num_digits == 0 || num_digits > kMostDigits) return false;
      if (text.starts_with('e') || text.starts_with('E')) {
        text.remove_prefix(1);
        const bool is_small = text.starts_with('-');
        if (is_small || text.starts_with('+')) text.remove_prefix(1);
        if (text.empty() || text.size() > 2) return false;
        std::uint64_t power = 0;
        take_digits(text, power);
        exponent += static_cast<std::int64_t>(is_small ? 0 - power : power);
      }
      if (!text.empty() || exponent < -22 || exponent > 22) return false;
      const double power = kPowers[exponent < 0 ? -exponent : exponent];
      const double exact = static_cast<double>(digits);
      const double rounded = exponent < 0 ? exact / power : exact * power;
      // As a float it would be rounded again, which is wrong only in the middle between two floats.
      if (sizeof(T) == sizeof(float) && (std::bit_cast<std::uint64_t>(rounded) & 0x1fffffff) == 0x10000000)
        return false;
      value = static_cast<T>(is_negative ? -rounded : rounded);
      return true;
    }
  }
}

}  // namespace lockstep::detail
