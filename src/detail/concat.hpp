#pragma once

#include <ios>
#include <locale>
#include <sstream>
#include <string>

namespace lockstep::detail {

/// Prints every part to one string, as `operator<<` does, in the classic locale: the library's text does not
/// depend on the program's locale. Messages are built with this (g++ 12 has no `<format>`).
/// @throws std::bad_alloc  A stream would otherwise cut the text short where memory runs out.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out.exceptions(std::ios_base::badbit);
  out.imbue(std::locale::classic());
  out << std::boolalpha;
  try {
    (out << ... << parts);
  } catch (const std::ios_base::failure&) {  // a null pointer to characters ends the text
  }
  return std::move(out).str();
}

}  // namespace lockstep::detail
