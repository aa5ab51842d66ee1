#pragma once

#include <sstream>
#include <string>

namespace digits {

/// All parts in one string, as a stream prints them.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace digits
