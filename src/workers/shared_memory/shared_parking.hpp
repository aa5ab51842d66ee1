#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include <lockstep/backend/process_group.hpp>

#include "detail/parking.hpp"

namespace lockstep::detail {

/// Where threads of several processes wait for each other, as Parking does for one: it lies in memory
/// that they share, zeroed at first. Of waiters that die with their processes nothing is left but a count,
/// which makes each wake a system call.
///
/// What `ready` reads must be read by seq_cst loads, and changed by seq_cst stores, or by others with a full
/// fence before `wake`: then either the sleeper sees the change, or whoever made it sees the sleeper.
class SharedParking {
 public:
  /// Returns true as soon as ready() holds, false when it does not at the deadline.
  /// @param num_threads  how many wait for each other.
  template <class Ready>
  bool wait(std::uint64_t num_threads, const Ready& ready, const backend::Deadline& deadline = {}) {
    if (Parking::linger(num_threads, ready)) return true;
    const Sleeper sleeper(num_sleepers_);
    for (;;) {
      const std::uint32_t turn = turn_.load(std::memory_order_seq_cst);
      if (ready()) return true;
      if (deadline && std::chrono::steady_clock::now() >= *deadline) return false;
      sleep(turn, deadline);
    }
  }
  /// Call it after what may make somebody's ready() hold.
  void wake() noexcept {
    if (num_sleepers_.load(std::memory_order_seq_cst) != 0) wake_sleepers();
  }

 private:
  class Sleeper {
   public:
    explicit Sleeper(std::atomic<std::uint32_t>& count) noexcept : count_(count) {
      count_.fetch_add(1, std::memory_order_seq_cst);
    }
    ~Sleeper() { count_.fetch_sub(1, std::memory_order_relaxed); }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

   private:
    std::atomic<std::uint32_t>& count_;
  };

  /// Returns when woken, at the deadline, now and then for no reason; at once if the turn is over.
  void sleep(std::uint32_t turn, const backend::Deadline& deadline) noexcept;
  void wake_sleepers() noexcept;

  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);  // so they work at any address
  std::atomic<std::uint32_t> turn_{0};                             // one more at each wake
  std::atomic<std::uint32_t> num_sleepers_{0};
};

}  // namespace lockstep::detail
