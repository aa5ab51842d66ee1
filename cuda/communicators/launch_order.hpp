#pragma once

#include <atomic>
#include <mutex>

#include "detail/barrier.hpp"

namespace lockstep::cuda {

/// One collective at a time, of all communicators of the process, is being enqueued: from its first rank to
/// its last. Two that share GPUs would otherwise reach their streams in different orders, and each wait for
/// the other for ever.
///
/// The threads of a collective come in together and go on together. Between, they do nothing but enqueue it,
/// so that while some ranks' devices are in it, and wait for those of the others, no thread does what may
/// wait for a device and holds what another needs to enqueue: a kernel's first launch, which loads it, an
/// allocation, a handle of cuBLAS.
///
/// One object for each communicator. It waits for other communicators' threads only while these enqueue a
/// collective whose ranks are all there.
class LaunchOrder {
 public:
  explicit LaunchOrder(int num_ranks) : num_ranks_(num_ranks), all_in_(num_ranks), all_out_(num_ranks) {}

  /// While a Turn lives its thread may enqueue for `num_ranks` ranks of the communicator.
  class [[nodiscard]] Turn {
   public:
    /// Returns when all ranks are there, or the communicator has failed.
    Turn(LaunchOrder& order, int num_ranks);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    /// Its ranks are enqueued. Returns when all are, or the communicator has failed. Without it, after an
    /// error, nobody is waited for.
    void end();

   private:
    void leave() noexcept;

    LaunchOrder& order_;
    const int num_ranks_;
    bool is_inside_ = false;
  };

  /// The communicator has failed: ranks that have not come will not, and those that do keep nobody waiting.
  /// Does not wait.
  void abandon() noexcept;

 private:
  void release() noexcept;

  const int num_ranks_;
  detail::Barrier all_in_, all_out_;
  std::atomic<bool> has_turn_{false};
  std::mutex
      mutex_;  // guards what follows; held while the first waits for the process's turn, not by abandon
  int num_entered_ = 0;
  int num_left_ = 0;
};

}  // namespace lockstep::cuda
