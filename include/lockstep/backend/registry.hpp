#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend/backend.hpp>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// The built-in backends, in the order of an explicit list (`src/default_backends.cpp`). The device manager
/// makes them at its first use.
std::vector<std::unique_ptr<Backend>> default_backends();

}  // namespace lockstep::backend

#pragma GCC visibility pop
