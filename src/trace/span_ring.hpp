#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/record_ring.hpp"
#include "trace/span.hpp"

namespace lockstep::detail {

/// The newest spans of a thread. That thread adds them; any thread may read them meanwhile.
class SpanRing {
 public:
  /// @param capacity  a power of two. @param thread  the thread's number in the recording.
  SpanRing(std::size_t capacity, int thread) : thread_(thread), ring_(capacity) {}

  void add(const SpanRecord& record) noexcept;
  /// The spans that are there, oldest first.
  std::vector<SpanRecord> records() const;
  std::uint64_t num_added() const noexcept { return ring_.num_added(); }
  int thread() const noexcept { return thread_; }

 private:
  const int thread_;
  RecordRing<8> ring_;
};

}  // namespace lockstep::detail
