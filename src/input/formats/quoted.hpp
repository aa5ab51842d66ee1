#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::detail {

/// The beginning of what a file says, in quotes, fit for a message.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 40;
  std::string result = "'";
  for (const char c : text.substr(0, kMost)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kMost ? "…'" : "'");
}

}  // namespace lockstep::detail
