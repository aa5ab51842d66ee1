#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>

#include <lockstep/input/parallel_options.hpp>

namespace lockstep::detail {

/// How many threads a pass has: as many as the options say, or by the rule of ParallelOptions::automatic.
/// It counts and measures no time. Used by one thread at a time.
class AutomaticThreads {
 public:
  static constexpr int kWindow = 16;    // elements between two changes
  static constexpr int kMostWaits = 4;  // of them; then there is one thread more

  /// @param most  the most threads, if the options are automatic.
  AutomaticThreads(const ParallelOptions& options, std::int64_t most)
      : is_automatic_(options.num_parallel_calls == ParallelOptions::automatic),
        most_(std::max<std::int64_t>(most, 1)),
        num_threads_(is_automatic_ ? 1 : options.num_parallel_calls) {}

  static std::int64_t num_cores() { return std::max<std::int64_t>(std::thread::hardware_concurrency(), 1); }

  bool is_automatic() const noexcept { return is_automatic_; }
  std::int64_t num_threads() const noexcept { return num_threads_; }
  std::int64_t most() const noexcept { return is_automatic_ ? most_ : num_threads_; }
  /// Counts an element that was taken. @param was_short  whether it was waited for, and more threads would
  /// have made it ready sooner. @param was_ready  whether it was not waited for.
  void count(bool was_short, bool was_ready) noexcept {
    if (!is_automatic_) return;
    num_short_ += was_short ? 1 : 0;
    num_ready_ += was_ready ? 1 : 0;
    if (++num_elements_ < kWindow) return;
    if (num_short_ >= kMostWaits)
      num_threads_ = std::min(num_threads_ + 1, most_);
    else if (num_ready_ == kWindow)
      num_threads_ = std::max<std::int64_t>(num_threads_ - 1, 1);
    num_elements_ = num_short_ = num_ready_ = 0;
  }

 private:
  bool is_automatic_;
  std::int64_t most_;
  std::int64_t num_threads_;
  int num_elements_ = 0, num_short_ = 0, num_ready_ = 0;  // since the last change
};

}  // namespace lockstep::detail
