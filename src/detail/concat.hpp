#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace lockstep::detail {

/// Writes every part to one string, as `operator<<` prints it, in the classic locale: the library's text does
/// not depend on the program's. Messages are built with this (no `<format>` in g++ 12).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::boolalpha;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace lockstep::detail
