#include "detail/in_quotes.hpp"

#include <algorithm>

namespace lockstep::detail {
namespace {

/// The size of the UTF-8 character with which `text` begins; 0: it begins with none, or with one that is not
/// printable.
/// @pre text is not empty.
std::size_t size_of_printable(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= ' ' && byte(0) != 0x7f ? 1 : 0;
  const std::size_t size = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return size;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 100;
  std::string shown;
  while (!text.empty()) {
    const std::size_t printable = size_of_printable(text);
    const std::size_t size = std::max<std::size_t>(printable, 1);
    if (shown.size() + size > kMost) return "'" + shown + "…'";
    shown += printable > 0 ? text.substr(0, size) : "?";
    text.remove_prefix(size);
  }
  return "'" + shown + "'";
}

}  // namespace lockstep::detail
