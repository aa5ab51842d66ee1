#pragma once

#include <string_view>

namespace lockstep::detail {

/// Tells the user what is most likely a mistake but no error: to set_log_sink's sink.
void warn(std::string_view message) noexcept;

}  // namespace lockstep::detail
