#pragma once

#include <exception>
#include <string>

namespace lockstep::detail {

/// What an exception says.
inline std::string exception_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace lockstep::detail
