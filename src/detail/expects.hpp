#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <utility>

#include <lockstep/error.hpp>

#include "detail/concat.hpp"

/// The library throws with these functions. Public headers only declare functions that throw, and do not
/// include this file.
namespace lockstep::detail {

/// Fills the empty fields with the replica whose function the thread is in. Null: there are no replicas.
using ErrorPlace = void (*)(ErrorContext&);
extern std::atomic<ErrorPlace> error_place;

/// The context with its empty fields filled from the message. Messages begin with the operation, name the
/// replica at fault first, and end with a sentence that says what to do.
ErrorContext complete(ErrorContext context, std::string_view message);

/// Throws Kind with the message and the location.
template <class Kind>
[[noreturn]] void raise(const SourceLocation& location, const std::string& message,
                        ErrorContext context = {}) {
  context.location = location;
  throw Kind(message, complete(std::move(context), message));
}

}  // namespace lockstep::detail

/// Throws `Kind` with the concatenated parts as its message unless `condition` holds. It is for errors of the
/// caller.
#define LOCKSTEP_EXPECTS(condition, Kind, ...)                                  \
  do {                                                                          \
    if (!(condition)) [[unlikely]]                                              \
      ::lockstep::detail::raise<Kind>({__FILE__, __LINE__, __func__},           \
                                      ::lockstep::detail::concat(__VA_ARGS__)); \
  } while (false)
