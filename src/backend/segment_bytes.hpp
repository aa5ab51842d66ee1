#pragma once

#include <cstdint>

#include <lockstep/backend/communicator_backend.hpp>

namespace lockstep::backend {

/// Bytes of what `segment.count` counts.
inline std::int64_t bytes_of(const Segment& segment) {
  return segment.count * static_cast<std::int64_t>(size_of(segment.dtype));
}

}  // namespace lockstep::backend
