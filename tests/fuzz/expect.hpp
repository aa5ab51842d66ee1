#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <lockstep/error.hpp>

namespace lockstep::test {

/// Ends the program unless `condition` holds.
inline void expect(bool condition, std::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// Calls f. Nothing but InvalidArgument may come out of it, and its message must name what it is about.
/// @return whether nothing did.
template <class F>
bool accepts(std::string_view subject, F&& f) {
  try {
    f();
    return true;
  } catch (const InvalidArgument& error) {
    const std::string_view message = error.what();
    expect(message.find(subject) != message.npos, message);
    return false;
  }
}

}  // namespace lockstep::test
