#pragma once

#include <atomic>
#include <cstdint>

namespace lockstep::host {

/// How far one rank's slice of a collective is: how many of its chunks threads have taken, and how many are
/// done. Whoever comes takes the next chunk; each is taken once.
///
/// Both counts carry the number of the collective, so that nobody need set them back between two: those of
/// an earlier one count as none. @pre a collective begins when all threads have returned from the one before.
class SliceProgress {
 public:
  /// The first chunk that nobody has taken; none is left: -1.
  /// @param collective  its number, above those before.
  std::int64_t take(std::uint64_t collective, std::int64_t num_chunks) noexcept {
    std::uint64_t word = taken_.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t taken = count_of(word, collective);
      if (static_cast<std::int64_t>(taken) >= num_chunks) return -1;
      if (taken_.compare_exchange_weak(word, word_of(collective, taken + 1), std::memory_order_relaxed))
        return static_cast<std::int64_t>(taken);
    }
  }
  /// A chunk is done. Follow it by a full fence before anyone is woken.
  void add_done(std::uint64_t collective, std::int64_t num_chunks) noexcept {
    if (num_chunks == 1) return done_.store(word_of(collective, 1), std::memory_order_release);
    std::uint64_t word = done_.load(std::memory_order_relaxed);
    while (!done_.compare_exchange_weak(word, word_of(collective, count_of(word, collective) + 1),
                                        std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
  }
  /// Whether all chunks are done; what was written is then visible.
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
  alignas(64) std::atomic<std::uint64_t> done_{0};  // a line of its own: all threads watch it
};

}  // namespace lockstep::host
