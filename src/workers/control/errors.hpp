#pragma once

#include <string>
#include <string_view>

#include "workers/control/wire.hpp"

namespace lockstep::detail::control {

/// Throws the exception of that kind.
[[noreturn]] void raise_kind(ErrorKind kind, const std::string& message);

/// Throws how the start has failed.
[[noreturn]] void raise_refused(const Refused& refused);

/// Throws how a call has failed, with what to do. @param call  "get of 'key'".
[[noreturn]] void raise_failed(std::string_view call, const Failed& failed);

}  // namespace lockstep::detail::control
