#pragma once

#include <string>
#include <string_view>

namespace lockstep::detail {

/// "'text'", fit for a message: of a text from outside its first 100 bytes, with '?' for what does not print,
/// or is not UTF-8.
std::string in_quotes(std::string_view text);

}  // namespace lockstep::detail
