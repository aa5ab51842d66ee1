#pragma once

#include <locale>
#include <sstream>
#include <string>

namespace lockstep::detail {

/// Prints every part to one string, as `operator<<` does, in the classic locale: the library's text does not
/// depend on the program's locale. Messages are built with this (g++ 12 has no `<format>`).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << std::boolalpha;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace lockstep::detail
