#pragma once

#include <algorithm>
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

}  // namespace lockstep::detail
