#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// A backend's own stream and event; 0 is none. Their meaning is the backend's secret.
enum class StreamHandle : std::uintptr_t {};
enum class EventHandle : std::uintptr_t {};

}  // namespace lockstep::backend

#pragma GCC visibility pop
