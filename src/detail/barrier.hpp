#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace lockstep::detail {

/// Where a fixed number of parties wait for each other, again and again. One thread may stand for several
/// parties. Waiting spins briefly, then yields, then sleeps, so that it is fast with a core for each thread
/// and harmless without.
///
/// Number of arrivals, failure and generation share one atomic word, so that a generation is either complete
/// or failed, for all parties alike, whatever happens at the same moment.
class Barrier {
 public:
  enum class Outcome : std::uint8_t { passed, failed, timed_out };
  using Deadline = std::optional<std::chrono::steady_clock::time_point>;

  /// What `arrive` returns and `release` or `wait` take.
  struct Ticket {
    std::uint64_t generation;
    int num_arriving;
    bool is_last;  ///< The holder must call `release`; others `wait`.
    bool failed;   ///< The holder must go away: neither of these.
  };

  explicit Barrier(int num_parties);

  /// Generations passed since construction or `reset`. Stable for a party that has not arrived yet.
  std::uint64_t generation() const noexcept {
    return word_.load(std::memory_order_acquire) >> kGenerationShift;
  }
  bool has_failed() const noexcept { return (word_.load(std::memory_order_acquire) & kFailed) != 0; }

  Ticket arrive(int num_arriving) noexcept;
  /// Lets everybody pass. Returns false if the barrier has failed since `arrive`: nobody passes.
  bool release(const Ticket& ticket) noexcept;
  /// After the deadline returns `timed_out`, unless all have arrived and the last of them is about to
  /// release.
  Outcome wait(const Ticket& ticket, const Deadline& deadline = {});
  /// All of the above. @return false if the barrier has failed.
  bool arrive_and_wait(int num_arriving);

  /// Fails this and later generations, and wakes all waiters.
  void fail() noexcept;
  /// The same, but only while the ticket's generation is neither complete nor failed. @return whether it did.
  bool fail_if_incomplete(const Ticket& ticket) noexcept;
  /// Generation 0, nobody has arrived. @pre nobody is waiting.
  void reset(bool failed = false) noexcept;

 private:
  static constexpr std::uint64_t kArrived = 0xffff;
  static constexpr std::uint64_t kFailed = 1 << 16;
  static constexpr int kGenerationShift = 17;

  void wake() noexcept;

  alignas(64) std::atomic<std::uint64_t> word_{0};  // generation, failed, arrived
  alignas(64) const std::uint64_t num_parties_;
  const std::uint64_t num_cores_;
  std::atomic<int> num_sleepers_{0};
  std::mutex mutex_;  // guards nothing: orders falling asleep and waking up
  std::condition_variable awake_;
};

}  // namespace lockstep::detail
