#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::host {

/// Elements of a segment that are reduced together.
struct ReducedPart {
  std::size_t segment;
  std::int64_t send_begin_bytes;  ///< Behind every rank's `send`.
  std::int64_t size_bytes;
  int receiver = -1;                     ///< The only rank that gets the result; all: -1.
  std::int64_t receive_begin_bytes = 0;  ///< Behind the receiver's, or everyone's, `receive`.
};

}  // namespace lockstep::host
