#pragma once

#include <atomic>
#include <cstdint>

#include "detail/parking.hpp"

namespace lockstep::detail {

/// A barrier at which a fixed number of parties wait for each other repeatedly. One thread may stand for
/// several parties.
///
/// The number of arrivals, the failure and the generation share one atomic word, so that a generation is
/// either complete or failed for all parties alike, even if both happen at the same moment.
class Barrier {
 public:
  explicit Barrier(int num_parties);

  bool has_failed() const noexcept { return (word_.load(std::memory_order_acquire) & kFailed) != 0; }

  /// Returns when all parties have arrived. @return false if the barrier has failed.
  bool arrive_and_wait(int num_arriving);

  /// Fails this and later generations, and wakes all waiters.
  void fail() noexcept;

 private:
  static constexpr std::uint64_t kArrived = 0xffff;
  static constexpr std::uint64_t kFailed = 1 << 16;
  static constexpr int kGenerationShift = 17;

  alignas(64) std::atomic<std::uint64_t> word_{0};  // generation, failed, arrived
  alignas(64) const std::uint64_t num_parties_;
  Parking parking_;
};

}  // namespace lockstep::detail
