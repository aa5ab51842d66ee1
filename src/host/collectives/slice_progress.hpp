#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::host {

/// The progress of one rank's slice of a collective: the numbers of its chunks that threads have taken and
/// finished. Any thread takes the next chunk; each chunk is taken once.
///
/// Both counts carry the number of the collective, so that they need not be reset between two collectives: a
/// count of an earlier collective means 0. @pre a collective begins after all threads have returned from the
/// previous one.
class SliceProgress {
 public:
  /// Takes the next chunk. @return its index, or -1 if none is left.
  /// @param collective  its number, above all earlier numbers.
  std::int64_t take(std::uint64_t collective, std::int64_t num_chunks) noexcept {
    std::uint64_t word = taken_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t taken = count_of(word, collective);
      if (static_cast<std::int64_t>(taken) >= num_chunks) return -1;
      if (taken_.compare_exchange_weak(word, word_of(collective, taken + 1), std::memory_order_relaxed))
        return static_cast<std::int64_t>(taken);
    }
  }
  /// Marks a chunk as done. A full fence must follow before any thread is woken.
  void add_done(std::uint64_t collective, std::int64_t num_chunks) noexcept {
    if (num_chunks == 1) return done_.store(word_of(collective, 1), std::memory_order_release);
    std::uint64_t word = done_.load(std::memory_order_relaxed);
    while (!done_.compare_exchange_weak(word, word_of(collective, count_of(word, collective) + 1),
                                        std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
  }
  /// Whether all chunks are done; their results are then visible.
  bool is_done(std::uint64_t collective, std::int64_t num_chunks) const noexcept {
    return done_.load(std::memory_order_seq_cst) ==
           word_of(collective, static_cast<std::uint64_t>(num_chunks));
  }

 private:
  static constexpr int kCountBits = 24;

  static std::uint64_t word_of(std::uint64_t collective, std::uint64_t count) {
    return collective << kCountBits | count;
  }
  static std::uint64_t count_of(std::uint64_t word, std::uint64_t collective) {
    return word >> kCountBits == collective ? word & ((std::uint64_t{1} << kCountBits) - 1) : 0;
  }

  alignas(64) std::atomic<std::uint64_t> taken_{0};
  alignas(64) std::atomic<std::uint64_t> done_{0};  // in its own cache line: all threads poll it
};

}  // namespace lockstep::host
