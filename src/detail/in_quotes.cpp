#include "detail/in_quotes.hpp"

namespace lockstep::detail {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 100;
  std::string_view shown = text.substr(0, kMost);
  if (shown.size() < text.size())  // not within a character of UTF-8
    while (!shown.empty() && (text[shown.size()] & 0xc0) == 0x80) shown.remove_suffix(1);
  std::string result = "'";
  for (const char c : shown) result += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? '?' : c;
  return result + (shown.size() < text.size() ? "…'" : "'");
}

}  // namespace lockstep::detail
