#pragma once

#include <string_view>

#include <lockstep/error.hpp>

#include "detail/expects.hpp"

namespace lockstep::detail {

/// Throws what a call of a format that this build does not have throws.
/// @param what  the call. @param library, package  what the format needs, and Debian's name of it.
/// @throws Unsupported
[[noreturn]] inline void raise_absent_format(std::string_view what, std::string_view library,
                                             std::string_view package) {
  raise<Unsupported>({__FILE__, __LINE__, __func__},
                     concat(what, ": lockstep was built without ", library, ". Install it (Debian: ", package,
                            ") and build lockstep again."));
}

}  // namespace lockstep::detail
