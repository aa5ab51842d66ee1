#pragma once

#include <condition_variable>
#include <mutex>

namespace lockstep::cuda {

/// One collective at a time, of all communicators of the process, is being enqueued: from its first rank to
/// its last. Two that share GPUs would otherwise reach their streams in different orders, and each wait for
/// the other for ever.
///
/// One object for each communicator. It waits for other communicators' threads only while these enqueue a
/// collective whose ranks are all there.
class LaunchOrder {
 public:
  explicit LaunchOrder(int num_ranks) : num_ranks_(num_ranks) {}

  /// While a Turn lives its thread may enqueue for `num_ranks` ranks of the communicator.
  class [[nodiscard]] Turn {
   public:
    Turn(LaunchOrder& order, int num_ranks);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    LaunchOrder& order_;
    const int num_ranks_;
  };

  /// The communicator has failed: ranks that have not come will not, and those that do keep nobody waiting.
  /// Does not wait.
  void abandon() noexcept;

 private:
  void release() noexcept;

  const int num_ranks_;
  std::mutex mutex_;  // guards what follows
  int num_entered_ = 0;
  int num_left_ = 0;
  bool has_turn_ = false;
  bool is_abandoned_ = false;
  std::condition_variable may_enqueue_;  // one of these two has become true
};

}  // namespace lockstep::cuda
