#pragma once

#include <string>

namespace lockstep::detail {

/// Equal for processes that can share memory: what the environment variable LOCKSTEP_HOST_ID says, else the
/// machine's name, which a container has for itself, and the id of its start.
std::string host_identity();

}  // namespace lockstep::detail
