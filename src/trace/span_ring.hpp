#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "trace/span.hpp"

namespace lockstep::detail {

/// The newest spans of a thread. That thread adds them; any thread may read them meanwhile. Memory is taken
/// as spans come, as many threads make few.
class SpanRing {
 public:
  /// @param capacity  a power of two. @param thread  the thread's number in the recording.
  SpanRing(std::size_t capacity, int thread)
      : thread_(thread), mask_(capacity - 1), chunks_((capacity + kChunk - 1) / kChunk) {}

  void add(const SpanRecord& record) noexcept;
  /// The spans that are there, oldest first.
  std::vector<SpanRecord> records() const;
  std::uint64_t num_added() const noexcept { return num_added_.load(std::memory_order_acquire); }
  int thread() const noexcept { return thread_; }

 private:
  using Slot = std::array<std::atomic<std::uint64_t>, 8>;

  const int thread_;
  const std::uint64_t mask_;
  static constexpr std::size_t kChunk = 256;
  const Slot& slot(std::uint64_t number) const {
    return chunks_[(number & mask_) / kChunk][(number & mask_) % kChunk];
  }

  std::vector<std::unique_ptr<Slot[]>> chunks_;  // a chunk is made before its first span counts as added
  std::atomic<std::uint64_t> num_added_{0};
};

}  // namespace lockstep::detail
