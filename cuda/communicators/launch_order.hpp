#pragma once

#include <atomic>
#include <mutex>

#include "detail/barrier.hpp"

namespace lockstep::cuda {

/// Lets the process enqueue one collective at a time, from its first rank to its last, whichever communicator
/// it is of. Two collectives that share GPUs would otherwise reach the GPUs' streams in different orders, and
/// wait for each other for ever.
///
/// The threads of a collective start together and go on together. In between they only enqueue it. Otherwise
/// one thread could wait for a device that is in the collective already, and hold what another thread needs
/// to enqueue its rank: a kernel's first launch, which loads the kernel, an allocation, or a cuBLAS handle.
/// Between processes the order of collectives is their callers'.
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

    /// To be called when the Turn's ranks are enqueued. Returns when all ranks are, or the communicator has
    /// failed. A Turn that goes without it, after an error, waits for nobody.
    void end();

   private:
    void leave() noexcept;

    LaunchOrder& order_;
    const int num_ranks_;
    bool is_inside_ = false;
  };

  /// While it lives, no thread enqueues a collective. For launches of graphs, of all ranks.
  struct [[nodiscard]] Alone {
    Alone() noexcept;
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;
  };

  /// To be called when the communicator has failed: nobody waits for ranks that have not come, and ranks that
  /// still come pass. Does not wait.
  void abandon() noexcept;

 private:
  void release() noexcept;

  const int num_ranks_;
  detail::Barrier all_in_, all_out_;
  std::atomic<bool> has_turn_{false};
  // Guards what follows. Held while the first waits for the process's turn; not by abandon.
  std::mutex mutex_;
  int num_entered_ = 0;
  int num_left_ = 0;
};

}  // namespace lockstep::cuda
