#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace lockstep {

/// Upper case of an ASCII letter, whatever the locale.
constexpr char to_upper_ascii(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

constexpr bool is_digit_ascii(char c) { return c >= '0' && c <= '9'; }

constexpr bool is_letter_ascii(char c) { return to_upper_ascii(c) >= 'A' && to_upper_ascii(c) <= 'Z'; }

/// Whether two texts are equal apart from the case of ASCII letters.
constexpr bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return to_upper_ascii(x) == to_upper_ascii(y); });
}

/// A whole text as an unsigned number; nothing if it is not one, or exceeds an int.
inline std::optional<int> parse_number(std::string_view text) {
  std::optional<int> value;
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit_ascii)) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value.emplace());
  if (error != std::errc()) value.reset();
  return value;
}

}  // namespace lockstep
