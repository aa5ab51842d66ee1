#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/span_ring.hpp"

namespace lockstep::detail {

/// The spans of all threads since trace::start.
struct Recording {
  std::vector<std::shared_ptr<SpanRing>> rings;  // one for each thread that has made a span
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

/// Spans that begin from now on are recorded. @param capacity  spans for each thread, a power of two.
void start_recording(std::size_t capacity);
void stop_recording() noexcept;
/// The newest recording; no rings if there is none.
Recording recording();

/// Starts what LOCKSTEP_TRACE asks for. @return whether it asks.
bool start_from_environment() noexcept;

/// Nanoseconds of CLOCK_MONOTONIC.
std::uint64_t monotonic_ns() noexcept;

/// The recording in Chrome's trace format. @param process  its number, and name, in the picture.
std::string chrome_trace(const Recording& recording, int process);

}  // namespace lockstep::detail
