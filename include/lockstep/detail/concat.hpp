#pragma once

#include <sstream>
#include <string>

namespace lockstep::detail {

/// Writes every part to one string, as `operator<<` prints it. Messages are built with this (no `<format>` in
/// g++ 12).
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  out << std::boolalpha;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace lockstep::detail
