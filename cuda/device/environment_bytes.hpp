#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::cuda {

/// The number of bytes in an environment variable; -1: it is not set. @param operation  for messages.
/// @throws InvalidArgument  it is no number of bytes.
inline std::int64_t bytes_in_environment(const char* variable, std::string_view operation) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return -1;
  std::int64_t size_bytes = -1;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.begin(), view.end(), size_bytes);
  LOCKSTEP_EXPECTS(error == std::errc() && end == view.end() && size_bytes >= 0, InvalidArgument, operation,
                   ": the environment variable ", variable, " is \"", view,
                   "\". Set it to a number of bytes, at least 0, or unset it.");
  return size_bytes;
}

}  // namespace lockstep::cuda
