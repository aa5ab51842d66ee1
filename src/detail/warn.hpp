#pragma once

#include <string_view>

namespace lockstep::detail {

/// Tells the user what is most likely a mistake but no error: "lockstep: MESSAGE" on the standard error
/// stream.
void warn(std::string_view message) noexcept;

}  // namespace lockstep::detail
