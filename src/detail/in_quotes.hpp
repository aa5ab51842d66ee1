#pragma once

#include <string>
#include <string_view>

namespace lockstep::detail {

/// "'text'", fit for a message: of a text from outside, its beginning, and of that what prints.
std::string in_quotes(std::string_view text);

}  // namespace lockstep::detail
