#pragma once

#include <exception>
#include <string>

namespace lockstep::detail {

/// What an exception says.
inline std::string exception_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    const char* const text = exception.what();
    return text == nullptr ? "an exception without a text" : text;
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace lockstep::detail
