#pragma once

#include <string_view>

namespace lockstep::detail {

/// Logs a probable mistake of the user that is not an error, to set_log_sink's sink.
void warn(std::string_view message) noexcept;

}  // namespace lockstep::detail
