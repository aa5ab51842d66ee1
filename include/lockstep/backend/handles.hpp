#pragma once

#include <cstdint>

#pragma GCC visibility push(default)

namespace lockstep::backend {

/// Handles of a backend's streams and events; 0 is null. Only the backend knows their meaning.
enum class StreamHandle : std::uintptr_t {};
enum class EventHandle : std::uintptr_t {};

}  // namespace lockstep::backend

#pragma GCC visibility pop
