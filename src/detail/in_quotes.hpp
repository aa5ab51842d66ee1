#pragma once

#include <string>
#include <string_view>

namespace lockstep::detail {

/// "'text'" for a message: the first 100 bytes of untrusted text, with '?' for bytes that are not printable
/// or not UTF-8.
std::string in_quotes(std::string_view text);

}  // namespace lockstep::detail
